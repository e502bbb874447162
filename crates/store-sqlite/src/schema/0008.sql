-- Format 8: contents of a pack are compressed together, in blocks.

-- Of each block: where it starts in the pack, its length there and its length before it was compressed, as 32-bit little-endian
-- numbers. The directory then has with each hash: the number of its block, where the content starts in it before it was compressed,
-- and its length. None where every content is compressed by itself.
ALTER TABLE packs ADD COLUMN blocks BLOB;
