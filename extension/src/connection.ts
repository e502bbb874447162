// The connection to the program: its first messages, after which both sides have proved themselves.

import { Exchange, isProved, nonce, prove, type Nonces } from "./keys.js";

const PROTOCOL = 1;

/** An admitted connection. */
export interface Admitted {
  socket: WebSocket;
  /** Name of the listener, new for each. */
  instance: string;
}

/** A refusal, in words for the user. */
export class Refused extends Error {}

interface Message {
  type: string;
  [field: string]: unknown;
}

/** Messages of a socket, one after the other. */
class Inbox {
  private readonly waiting: Message[] = [];
  private wake: (() => void) | undefined;
  private isClosed = false;

  constructor(private readonly socket: WebSocket) {
    socket.onmessage = (event) => {
      this.waiting.push(JSON.parse(event.data as string) as Message);
      this.wake?.();
    };
    socket.onclose = () => {
      this.isClosed = true;
      this.wake?.();
    };
  }

  async next(wanted: string): Promise<Message> {
    while (this.waiting.length === 0) {
      if (this.isClosed) {
        throw new Refused("nothing of Handfast answers at this port");
      }
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
    const message = this.waiting.shift() as Message;
    if (message.type === "refused") {
      throw new Refused(String(message["message"]));
    }
    if (message.type !== wanted) {
      this.socket.close();
      throw new Refused("the program at this port is not this version of Handfast");
    }
    return message;
  }
}

async function greet(port: number): Promise<{ socket: WebSocket; inbox: Inbox; nonces: Nonces }> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/extension`);
  const inbox = new Inbox(socket);
  const challenge = await inbox.next("challenge");
  if (challenge["protocol"] !== PROTOCOL) {
    socket.close();
    throw new Refused("Handfast has another version: write the extension again with `handfast browser extension`");
  }
  const nonces = { server: String(challenge["nonce"]), extension: nonce(), origin: location.origin };
  return { socket, inbox, nonces };
}

/** Connects to the program that this extension is paired with. */
export async function connect(port: number, key: string): Promise<Admitted> {
  const { socket, inbox, nonces } = await greet(port);
  try {
    socket.send(JSON.stringify({ type: "prove", nonce: nonces.extension, proof: await prove(key, nonces) }));
    const answer = await inbox.next("proved");
    if (!(await isProved(key, nonces, String(answer["proof"])))) {
      throw new Refused("the program at this port is not the paired one");
    }
    return { socket, instance: String(answer["instance"]) };
  } catch (error) {
    socket.close();
    throw error;
  }
}

/** Pairs with a program that shows this code, and returns the key. */
export async function pair(port: number, code: string): Promise<string> {
  const plain = code.toUpperCase().replace(/[\s-]/g, "");
  if (!/^[2-9A-HJ-NP-Z]{8}$/.test(plain)) {
    throw new Refused("a code has eight letters and digits, such as ABCD-2345");
  }
  const { socket, inbox, nonces } = await greet(port);
  try {
    const exchange = await Exchange.begin();
    socket.send(JSON.stringify({ type: "pair", nonce: nonces.extension, public: exchange.publicKey }));
    const offer = await inbox.next("offer");
    const agreed = await exchange.agree(nonces, String(offer["public"]), String(offer["proof"]), plain);
    if (agreed === undefined) {
      throw new Refused("the code is another one: type it again, or run `handfast browser pair` again");
    }
    socket.send(JSON.stringify({ type: "confirm", proof: agreed.proof }));
    await inbox.next("paired");
    return agreed.key;
  } finally {
    socket.close();
  }
}
