// Nonces, keys and proofs. `keys.rs` describes them.

const ITERATIONS = 600_000;

export interface Nonces {
  server: string;
  extension: string;
  origin: string;
}

type Role = "server" | "extension";

const bytes = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

function encode(buffer: ArrayBuffer | Uint8Array<ArrayBuffer>): string {
  return btoa(String.fromCharCode(...new Uint8Array(buffer)));
}

function decode(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function nonce(): string {
  return encode(crypto.getRandomValues(new Uint8Array(32)));
}

async function hmacKey(key: BufferSource): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

async function sign(key: BufferSource, text: string): Promise<string> {
  return encode(await crypto.subtle.sign("HMAC", await hmacKey(key), bytes(text)));
}

/** Compares in constant time. */
async function verify(key: BufferSource, text: string, proof: string): Promise<boolean> {
  return crypto.subtle.verify("HMAC", await hmacKey(key), decode(proof), bytes(text));
}

function connectionText(nonces: Nonces, role: Role): string {
  return `handfast-connection/1\n${role}\n${nonces.server}\n${nonces.extension}\n${nonces.origin}`;
}

/** Returns the proof that this extension has the key. */
export async function prove(key: string, nonces: Nonces): Promise<string> {
  return sign(decode(key), connectionText(nonces, "extension"));
}

/** Returns true if the program has proved that it has the key. */
export async function isProved(key: string, nonces: Nonces, proof: string): Promise<boolean> {
  return verify(decode(key), connectionText(nonces, "server"), proof);
}

/** Side of this extension in a pairing. */
export class Exchange {
  private constructor(
    private readonly pair: CryptoKeyPair,
    readonly publicKey: string,
  ) {}

  static async begin(): Promise<Exchange> {
    const pair = await crypto.subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, false, ["deriveBits"]);
    return new Exchange(pair, encode(await crypto.subtle.exportKey("raw", pair.publicKey)));
  }

  /** Checks that the program has the code. Returns the key and the own proof; undefined if it has not. */
  async agree(
    nonces: Nonces,
    other: string,
    proof: string,
    code: string,
  ): Promise<{ key: string; proof: string } | undefined> {
    const transcript =
      `handfast-pairing/1\n${nonces.server}\n${nonces.extension}\n${other}\n${this.publicKey}\n${nonces.origin}`;
    const password = await crypto.subtle.importKey("raw", bytes(code), "PBKDF2", false, ["deriveBits"]);
    const derivation = { name: "PBKDF2", hash: "SHA-256", salt: bytes(transcript), iterations: ITERATIONS };
    const confirmation = await crypto.subtle.deriveBits(derivation, password, 256);
    if (!(await verify(confirmation, `server\n${transcript}`, proof))) {
      return undefined;
    }
    const curve = { name: "ECDH", namedCurve: "P-256" };
    const theirs = await crypto.subtle.importKey("raw", decode(other), curve, false, []);
    const shared = await crypto.subtle.deriveBits({ name: "ECDH", public: theirs }, this.pair.privateKey, 256);
    return {
      key: await sign(shared, `key\n${transcript}`),
      proof: await sign(confirmation, `extension\n${transcript}`),
    };
  }
}
