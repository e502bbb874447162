"""What embedding is held against, asked over lines of JSON.

embedding_peer.py tokens MODEL_FOLDER      a list of texts -> the numbers of their tokens, by the tokenizer's authors
embedding_peer.py exact MODEL_FOLDER       a list of texts -> their vectors, in floats, by NumPy
embedding_peer.py onnx MODEL_FOLDER MODEL  a list of texts -> their vectors, by onnxruntime on one thread, from a model of bytes

Vectors come as {"cpu": seconds, "wall": seconds, "vectors": [[...]]}.
"""

import json
import struct
import sys
import time

import numpy as np
from tokenizers import Tokenizer

kind, folder = sys.argv[1], sys.argv[2]
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.no_padding()
tokenizer.enable_truncation(256)


def pooled(states, mask):
    mask = mask[..., None].astype(np.float32)
    mean = (states * mask).sum(1) / mask.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def exact():
    with open(f"{folder}/model.safetensors", "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {
        name: np.frombuffer(data[slice(*tensor["data_offsets"])], "<f4").reshape(tensor["shape"])
        for name, tensor in head.items()
        if name != "__metadata__" and tensor["dtype"] == "F32"
    }
    config = json.load(open(f"{folder}/config.json"))
    heads, width = config["num_attention_heads"], config["hidden_size"]

    def linear(rows, name):
        return rows @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(rows, name):
        mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
        rows = (rows - mean) / np.sqrt(variance + config["layer_norm_eps"])
        return rows * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    from math import erf

    gelu = np.frompyfunc(lambda x: 0.5 * x * (1 + erf(x / 2**0.5)), 1, 1)

    def one(ids):
        rows = (
            tensors["embeddings.word_embeddings.weight"][ids]
            + tensors["embeddings.position_embeddings.weight"][: len(ids)]
            + tensors["embeddings.token_type_embeddings.weight"][0]
        )
        rows = norm(rows, "embeddings.LayerNorm")
        for layer in range(config["num_hidden_layers"]):
            at = f"encoder.layer.{layer}"
            queries, keys, values = (
                linear(rows, f"{at}.attention.self.{name}").reshape(len(ids), heads, -1).transpose(1, 0, 2)
                for name in ("query", "key", "value")
            )
            scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(width / heads)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            context = (scores / scores.sum(-1, keepdims=True)) @ values
            context = context.transpose(1, 0, 2).reshape(len(ids), width)
            rows = norm(rows + linear(context, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
            wide = gelu(linear(rows, f"{at}.intermediate.dense")).astype(np.float32)
            rows = norm(rows + linear(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        return pooled(rows[None], np.ones((1, len(ids))))[0]

    return lambda texts: [one(tokenizer.encode(text).ids) for text in texts]


def onnx():
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(sys.argv[3], options, providers=["CPUExecutionProvider"])

    def vectors(texts):
        encoded = [tokenizer.encode(text).ids for text in texts]
        # Sorted by length and few at a time, because padding costs it most.
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]))
        found = [None] * len(texts)
        for start in range(0, len(order), 4):
            places = order[start : start + 4]
            width = max(len(encoded[place]) for place in places)
            ids, mask = np.zeros((len(places), width), np.int64), np.zeros((len(places), width), np.int64)
            for row, place in enumerate(places):
                ids[row, : len(encoded[place])] = encoded[place]
                mask[row, : len(encoded[place])] = 1
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            states = session.run(None, given)[0]
            for place, vector in zip(places, pooled(states, mask)):
                found[place] = vector
        return found

    return vectors


if kind == "tokens":
    for line in sys.stdin:
        print(json.dumps([tokenizer.encode(text).ids for text in json.loads(line)]), flush=True)
else:
    vectors = exact() if kind == "exact" else onnx()
    for line in sys.stdin:
        texts = json.loads(line)
        cpu, wall = time.process_time(), time.perf_counter()
        found = vectors(texts)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(json.dumps({"cpu": cpu, "wall": wall, "vectors": [list(map(float, v)) for v in found]}), flush=True)
