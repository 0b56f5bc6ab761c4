import { PassThrough, Readable, Writable } from 'node:stream'
import type { ServerResponse } from 'node:http'
import { runCli } from '../../../kernel/cli/program.js'
import { definePlugin } from '../../../kernel/index.js'
import { sendError, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import type { Plugin } from '../../../kernel/index.js'
import type { Pace } from '../../../kernel/cli/index.js'
import type { Asked } from '../../../kernel/test/cli-helpers.js'
import llamaCpp from '../../llama-cpp/index.js'
import placement from '../../placement/index.js'
import { createBench } from '../cli/bench.js'
import { createRun } from '../cli/run.js'
import { verbs } from '../cli/verbs.js'

export { sendError, sendJson }

/** A stream that keeps what is written to it. */
export class Kept extends Writable {
  text = ''
  readonly isTTY: boolean
  constructor (terminal: boolean) {
    super()
    this.isTTY = terminal
  }

  override _write (chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    this.emit('written')
    done()
  }

  /** Resolves when the text fits; the test times out when it never does. */
  async shows (pattern: RegExp): Promise<void> {
    while (!pattern.test(this.text)) await new Promise((resolve) => { this.once('written', resolve) })
  }
}

export interface RunOptions {
  /** Comes through the pipe. */
  stdin?: string | Uint8Array[]
  /** Stdout and stderr are a terminal. */
  terminal?: boolean
  signal?: AbortSignal
  pace?: Pace
}

/** What a command line did. */
export interface Ran { status: number, out: string, err: string }

interface Streams { stdin: Readable & { isTTY?: boolean }, stdout: Kept, stderr: Kept }

function chatVerbs (pace?: Pace): Plugin {
  let runs = 0
  const bench = pace === undefined
    ? verbs.bench
    : { ...verbs.bench, load: async () => ({ default: createBench(pace, () => `run${++runs}-`) }) }
  const run = pace === undefined
    ? verbs.run : { ...verbs.run, load: async () => ({ default: createRun(pace) }) }
  return definePlugin({
    name: 'chat-verbs', version: '1.0.0', kernel: '^1.0.0', summary: 'The verbs.',
    verbs: { ...verbs, bench, run }
  }, () => ({}))
}

async function svc (
  words: readonly string[], { stdin, stdout, stderr }: Streams, signal: AbortSignal | undefined,
  plugin: Plugin
): Promise<Ran> {
  const status = await runCli(words, {
    io: { stdout, stderr, stdin, env: { NO_COLOR: '1' }, cwd: process.cwd() },
    plugins: async () => [plugin, placement, llamaCpp],
    signal: signal ?? new AbortController().signal
  })
  return { status, out: stdout.text, err: stderr.text }
}

/** A person at a terminal. */
export interface Session extends Omit<Streams, 'stdin'> {
  type (text: string): void
  /** The end of the input, without a key. */
  hangUp (): void
  done: Promise<Ran>
}

export type Answers = Parameters<typeof standIn>[1]

export interface Node {
  url: string
  asked: Asked[]
  run (words: readonly string[], options?: RunOptions): Promise<Ran>
  sit (words: readonly string[], options?: RunOptions): Session
}

/** Starts a stand-in for a node; the command line has the verbs of one plugin. */
export async function nodeOf (
  t: { teardown (fn: () => unknown): void }, answers: Parameters<typeof standIn>[1], plugin?: Plugin
): Promise<Node> {
  const { url, asked } = await standIn(t, {
    // Whether a model is ready is asked before a conversation, and is not what these tests are about.
    'GET /v1/models': (response, one) => {
      asked.splice(asked.indexOf(one), 1)
      sendError(response, 404, 'not_found')
    },
    ...answers
  })
  const at = (words: readonly string[]): readonly string[] =>
    words.includes('--url') ? words : [...words, '--url', url]
  return {
    url,
    asked,
    async run (words, options = {}) {
      const { stdin = '', terminal = false } = options
      const streams = {
        stdin: Readable.from(typeof stdin === 'string' ? [stdin] : stdin),
        stdout: new Kept(terminal),
        stderr: new Kept(terminal)
      }
      return await svc(at(words), streams, options.signal, plugin ?? chatVerbs(options.pace))
    },
    sit (words, options = {}) {
      const stdin = Object.assign(new PassThrough(), { isTTY: true })
      const stdout = new Kept(true)
      const stderr = new Kept(true)
      const done = svc(at(words), { stdin, stdout, stderr }, options.signal, plugin ?? chatVerbs())
      return {
        stdout, stderr, done,
        type: (text) => { stdin.write(text) },
        hangUp: () => { stdin.end() }
      }
    }
  }
}

/** A `data:` event. */
export const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** A chunk with text. */
export const chunk = (content: string, more: object = {}): object => ({
  id: 'c1', object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { content }, finish_reason: null, ...more }]
})

/** The last chunk. */
export const end = (finish = 'stop'): object => ({
  id: 'c1', object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason: finish }],
  usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }
})

export const STATS = ': generation_stats {"prompt_tps":120.04,"generation_tps":41.25,"prompt_tokens":3,' +
  '"generation_tokens":5,"peak_memory_usage":{"inBytes":1}}\n\n'

/** A whole stream with these texts. */
export const stream = (...texts: string[]): string =>
  ': keep-alive\n\n: command_id c1\n\n' + texts.map((text) => data(chunk(text))).join('') + data(end()) +
  STATS + 'data: [DONE]\n\n'

/** The head of a stream, which stays open. */
export function begin (response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
}

/** The texts that were asked, with who said them. */
export const messagesOf = ({ body }: Asked): string[] =>
  (body as { messages: { role: string, content: string }[] }).messages
    .map(({ role, content }) => `${role}: ${content}`)
