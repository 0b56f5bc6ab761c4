/** HTTP client for a server that speaks OpenAI's API: a program on this machine, or a server elsewhere. */
import { once } from 'node:events'
import {
  Agent, request, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders
} from 'node:http'
import { EventParser } from '../../../kernel/api/engine.js'
import { fieldsOf, parsed, type Fields } from '../language/json.js'
import { BrokenAnswer } from './errors.js'

/** A Unix socket, or a port on loopback. */
export type Address = { socketPath: string } | { host: string, port: number }

/** Limit in bytes on a response that is not a stream. */
const MAX_BYTES = 64 * 2 ** 20
/** Limit in characters on one event, which normally contains a few tokens. */
const MAX_EVENT_CHARS = 4 * 2 ** 20
const OK = 200
/** Limit on the wait for a status; a program may be busy, but its health check is not. */
const STATUS_MS = 5_000
const END = '[DONE]'

/** A POST request if there is a `body`, which is sent as JSON; otherwise a GET request. */
interface Call {
  path: string, body?: Record<string, unknown>, signal?: AbortSignal, headers?: OutgoingHttpHeaders
  /** Called for all bytes of a stream, also those of comments that keep it alive. */
  seen?: () => void
}

/** Whether the request failed because the server had already closed the idle connection that it reused. */
const isStale = (error: unknown, sent: ClientRequest): boolean =>
  sent.reusedSocket && /^(ECONNRESET|EPIPE)$/.test((error as NodeJS.ErrnoException).code ?? '')

/** How to reach a server elsewhere: the agent guards its address; `base` precedes the paths of requests. */
export interface Remote {
  request: typeof request
  agent: Agent
  base: string
  /** Limit in bytes on a response that is not a stream, and in characters on an event. */
  maxBytes: number
}

export interface ClientParts {
  address: Address
  /** The server's name in messages. */
  name: string
  key?: string | undefined
  /** Header for the key; default: `authorization`, as a bearer token. */
  keyHeader?: string | undefined
  remote?: Remote
  /** The error for an error of the server; `status` is absent for one in the middle of a stream. */
  toError (body: unknown, status?: number, headers?: IncomingHttpHeaders): Error
}

export class Client {
  private readonly parts: ClientParts
  private readonly agent: Agent

  constructor (parts: ClientParts) {
    this.parts = parts
    this.agent = parts.remote?.agent ?? new Agent({ keepAlive: true })
  }

  /**
   * Sends a request and parses the JSON response. @throws EngineError for an error from the server,
   * BrokenAnswer if the connection breaks or the response is not JSON
   */
  async json (call: Call): Promise<Fields> {
    const answer = await this.open(call)
    return fieldsOf(await this.bodyOf(answer))
  }

  /** Whether the server is ready; false while it is not listening yet or is loading the model. */
  async healthy (): Promise<boolean> { return await this.status('/health') === OK }

  /** The status at a path, whose answer is not read; 0 if the program does not answer within 5 s. */
  async status (path: string): Promise<number> {
    try {
      const answer = await this.open({ path, signal: AbortSignal.timeout(STATUS_MS) })
      answer.resume()
      return answer.statusCode ?? 0
    } catch (error) {
      if (error instanceof BrokenAnswer || (error as Error).name === 'TimeoutError') return 0
      throw error
    }
  }

  /** The text at a path, such as metrics. Throws like `json`. */
  async text (call: Call): Promise<string> { return (await this.bytesOf(await this.open(call))).toString() }

  /** Streams a response's events; closes the connection when the reader stops. Throws like `json`. */
  async * events (call: Call): AsyncGenerator<Fields> {
    const answer = await this.open(call)
    if (answer.statusCode !== OK) await this.bodyOf(answer)
    try {
      // Older servers send errors mid-stream as an SSE field `error`.
      const parser = new EventParser(this.parts.remote?.maxBytes ?? MAX_EVENT_CHARS, 'error')
      // Leaving the loop closes the connection, so the server frees the slot.
      for await (const bytes of answer as AsyncIterable<Uint8Array>) {
        call.seen?.()
        for (const event of parser.push(bytes)) {
          if (event.kind === 'event' && event.data !== END) yield this.event(event.type, event.data)
        }
      }
    } catch (error) {
      throw this.broken(error)
    }
  }

  close (): void { this.agent.destroy() }

  private event (type: string, data: string): Fields {
    const value = parsed(data)
    if (value === undefined) throw new BrokenAnswer(`an event of ${this.parts.name} is not JSON`)
    const fields = fieldsOf(value)
    if (type === 'error' || fields['error'] !== undefined) throw this.parts.toError(value)
    return fields
  }

  /** Reads the body and parses it as JSON. @throws EngineError if the status reports an error */
  private async bodyOf (answer: IncomingMessage): Promise<unknown> {
    const value = parsed((await this.bytesOf(answer)).toString())
    if (answer.statusCode !== OK) throw this.parts.toError(value, answer.statusCode, answer.headers)
    if (value === undefined) throw new BrokenAnswer(`a response of ${this.parts.name} is not JSON`)
    return value
  }

  private async bytesOf (answer: IncomingMessage): Promise<Buffer> {
    const pieces: Uint8Array[] = []
    const { maxBytes = MAX_BYTES } = this.parts.remote ?? {}
    let bytes = 0
    try {
      for await (const piece of answer as AsyncIterable<Uint8Array>) {
        bytes += piece.byteLength
        if (bytes > maxBytes) {
          throw new BrokenAnswer(`a response of ${this.parts.name} exceeds ${maxBytes} bytes`)
        }
        pieces.push(piece)
      }
    } catch (error) {
      throw this.broken(error)
    }
    return Buffer.concat(pieces)
  }

  /** Sends a request; repeats it once if the reused connection had already been closed. */
  private async open (call: Call): Promise<IncomingMessage> {
    const first = this.send(call)
    try {
      return await answerTo(first)
    } catch (error) {
      if (call.signal?.aborted === true || !isStale(error, first)) throw this.broken(error)
    }
    try { return await answerTo(this.send(call)) } catch (error) { throw this.broken(error) }
  }

  private send ({ path, body, signal, headers }: Call): ClientRequest {
    const text = body === undefined ? undefined : JSON.stringify(body)
    const { address, remote, key, keyHeader } = this.parts
    const sent = (remote?.request ?? request)({
      ...address,
      path: `${remote?.base ?? ''}${path}`,
      agent: this.agent,
      method: text === undefined ? 'GET' : 'POST',
      headers: {
        ...headers,
        ...key === undefined ? {} : keyHeader === undefined ? { authorization: `Bearer ${key}` }
          : { [keyHeader]: key },
        ...text === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
      },
      ...signal === undefined ? {} : { signal }
    })
    sent.end(text)
    return sent
  }

  private broken (error: unknown): unknown {
    if (error instanceof Error && !('code' in error)) return error
    const { code, message } = error as NodeJS.ErrnoException
    return new BrokenAnswer(`the connection to ${this.parts.name} broke: ${code ?? message}`)
  }
}

async function answerTo (sent: ClientRequest): Promise<IncomingMessage> {
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  // Ignore later connection errors, because reading the response then fails as well.
  sent.on('error', () => {})
  return answer
}
