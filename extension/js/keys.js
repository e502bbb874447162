// Nonces, keys and proofs. `keys.rs` describes them.
const ITERATIONS = 600_000;
const bytes = (text) => new TextEncoder().encode(text);
function encode(buffer) {
    return btoa(String.fromCharCode(...new Uint8Array(buffer)));
}
function decode(text) {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
export function nonce() {
    return encode(crypto.getRandomValues(new Uint8Array(32)));
}
async function hmacKey(key) {
    return crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}
async function sign(key, text) {
    return encode(await crypto.subtle.sign("HMAC", await hmacKey(key), bytes(text)));
}
/** Compares in constant time. */
async function verify(key, text, proof) {
    return crypto.subtle.verify("HMAC", await hmacKey(key), decode(proof), bytes(text));
}
function connectionText(nonces, role) {
    return `handfast-connection/1\n${role}\n${nonces.server}\n${nonces.extension}\n${nonces.origin}`;
}
/** Returns the proof that this extension has the key. */
export async function prove(key, nonces) {
    return sign(decode(key), connectionText(nonces, "extension"));
}
/** Returns true if the program has proved that it has the key. */
export async function isProved(key, nonces, proof) {
    return verify(decode(key), connectionText(nonces, "server"), proof);
}
/** Side of this extension in a pairing. */
export class Exchange {
    pair;
    publicKey;
    constructor(pair, publicKey) {
        this.pair = pair;
        this.publicKey = publicKey;
    }
    static async begin() {
        const pair = await crypto.subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, false, ["deriveBits"]);
        return new Exchange(pair, encode(await crypto.subtle.exportKey("raw", pair.publicKey)));
    }
    /** Checks that the program has the code. Returns the key and the own proof; undefined if it has not. */
    async agree(nonces, other, proof, code) {
        const transcript = `handfast-pairing/1\n${nonces.server}\n${nonces.extension}\n${other}\n${this.publicKey}\n${nonces.origin}`;
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
