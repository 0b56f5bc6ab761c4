/** Helpers for the llama-server tests: a stand-in for llama-server, and an engine that uses the stand-in. */
import '../../runners/test/process-plain-spawn.js'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type {
  EngineChunk, EngineEnv, EngineSession, ModelCard, ModelSpec
} from '../../../kernel/api/engine.js'
import type { AnswerChunk } from '../../runners/language/chunks.js'
import { card } from '../../runners/test/samples.js'
import { llamaEngine } from '../server/index.js'

export { lives, until } from '../../runners/test/process-kit.js'

const SCRIPT = fileURLToPath(new URL('./fixtures/llama-server.mjs', import.meta.url))

/** Options of the stand-in; the last word of each prompt selects additional behaviour. */
export interface Scenario {
  help?: 'new' | 'old' | 'other' | 'fails'
  refusals?: number
  dies?: 'at start' | 'while loading'
  /** The last line that the stand-in logs if it exits while starting. */
  says?: string
  /** Extra fields of `/props`. */
  props?: object
  /** False to imitate a build without RPC. */
  rpc?: boolean
  /** Whether the stand-in notices a donor's loss only when it sends the donor a request. */
  outlives?: boolean
  noise?: number, cut?: number, context?: number, key?: string, hangsUp?: boolean, stays?: boolean
}

export interface TestCase { teardown (fn: () => unknown): void }

/** A temporary folder, removed after the test; its path is short because socket paths are limited. */
export function folder (t: TestCase): string {
  const path = mkdtempSync(join(tmpdir(), 'svc-llama-'))
  t.teardown(() => { rmSync(path, { recursive: true, force: true }) })
  return path
}

/** Writes a stand-in for llama-server with its scenario, and a model file. */
export function standIn (directory: string, scenario: Scenario = {}): { binary: string, journal: string } {
  const journal = join(directory, 'journal')
  writeFileSync(journal, '')
  const quoted = [process.execPath, SCRIPT, JSON.stringify({ ...scenario, journal })]
    .map((word) => `'${word.replaceAll('\'', '\'\\\'\'')}'`)
  const binary = join(directory, 'llama-server')
  writeFileSync(binary, `#!/bin/sh\nexec ${quoted.join(' ')} "$@"\n`)
  chmodSync(binary, 0o755)
  mkdirSync(join(directory, 'model'), { recursive: true })
  writeFileSync(join(directory, 'model', 'm.gguf'), 'GGUF')
  return { binary, journal }
}

/** Writes a stand-in for rpc-server beside llama-server's. */
export function donorIn (
  directory: string, scenario: { help?: 'other', dies?: 'at start' } = {}
): { binary: string, journal: string } {
  const journal = join(directory, 'donor-journal')
  writeFileSync(journal, '')
  const script = fileURLToPath(new URL('./fixtures/rpc-server.mjs', import.meta.url))
  const binary = join(directory, 'rpc-server')
  const told = JSON.stringify({ ...scenario, journal })
  writeFileSync(binary, `#!/bin/sh\nexec '${process.execPath}' '${script}' '${told}' "$@"\n`)
  chmodSync(binary, 0o755)
  return { binary, journal }
}

/** The card for a model with a single file. */
export const cardOf = (over: Partial<ModelCard> = {}): ModelCard => card('test/gguf', {
  tasks: ['chat', 'completions'], family: 'llama', engine: 'llama-server',
  files: [{ path: 'm.gguf', role: 'weights', bytes: 4 }], totalBytes: 4, nLayers: 1, hiddenSize: 1,
  heads: 1, kvHeads: 1, headSize: 1, contextLength: 2048, ...over
})

/** The spec for the model file beside the stand-in. */
export function specOf (
  directory: string, serverBinary: string, card: Partial<ModelCard> = {},
  options: Record<string, unknown> = {}
): ModelSpec {
  return {
    card: cardOf(card), directory: join(directory, 'model'), backend: 'cpu', threads: 1,
    options: { serverBinary, ...options }
  }
}

export interface Noted extends EngineEnv { logs: string[], progressed: [number, number][] }

/** An engine environment that records logs and progress. */
export function notingEnv (): Noted {
  const logs: string[] = []
  const progressed: [number, number][] = []
  return {
    logs,
    progressed,
    progress: (loaded, total) => { progressed.push([loaded, total]) },
    work: async (_label, _units, call) => await call(),
    log: (level, message, fields) => { logs.push(`${level} ${message} ${JSON.stringify(fields ?? {})}`) }
  }
}

type Entry = Record<string, unknown>

/** A session with its own stand-in for llama-server. */
export interface Rig {
  session: EngineSession
  env: Noted
  /** Errors that would have ended the runner process. */
  deaths: string[]
  echoed: string[]
  pid: number
  journal: () => Entry[]
  /** Bodies of the requests sent to a route so far. */
  bodies: (url: string) => Entry[]
}

/** The entries in a journal file, without an incomplete last line. */
export function entries (journal: string): Entry[] {
  const lines = readFileSync(journal, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as Entry)
}

/** Loads the engine in this process, with its own working folder. */
export async function rig (
  t: TestCase, scenario: Scenario = {}, card: Partial<ModelCard> = {}, options: Record<string, unknown> = {}
): Promise<Rig> {
  const directory = folder(t)
  const { binary, journal } = standIn(directory, scenario)
  process.chdir(directory)
  const env = notingEnv()
  const deaths: string[] = []
  const echoed: string[] = []
  const pause = async (ms: number): Promise<void> => { await delay(ms, undefined, { ref: false }) }
  const engine = llamaEngine({
    clock: { now: () => performance.now(), pause },
    die: (error) => { deaths.push(error.message) },
    echo: (line) => { echoed.push(line) }
  })
  const session = await engine.load(specOf(directory, binary, card, options), env)
  t.teardown(() => session.close?.())
  const read = (): Entry[] => entries(journal)
  const bodies = (url: string): Entry[] => read().filter((entry) => entry['url'] === url)
    .map((entry) => entry['body'] as Entry)
  const pid = Number(read().find((entry) => 'start' in entry)?.['pid'])
  return { session, env, deaths, echoed, pid, journal: read, bodies }
}

const never = new AbortController().signal

export async function chunksOf (
  session: EngineSession, kind: string, payload: Entry, signal = never
): Promise<EngineChunk[]> {
  const chunks: EngineChunk[] = []
  for await (const chunk of session.run({ kind, payload }, signal)) chunks.push(chunk)
  return chunks
}

/** A chunk's text; undefined if the chunk has none. */
export function textIn ({ choices = [] }: Partial<AnswerChunk>): string | undefined {
  return choices[0]?.delta?.content ?? choices[0]?.text
}

/** Sends a request; returns the answer's text and chunks, and the last chunk's choice, usage and timings. */
export async function ask (
  session: EngineSession, kind: string, payload: Entry
): Promise<{ text: string, pieces: AnswerChunk[], done: Entry }> {
  const pieces = (await chunksOf(session, kind, payload))
    .map((chunk) => chunk.payload as unknown as AnswerChunk)
  const { choices: [choice] = [], ...figures } = pieces.at(-1) ?? {}
  const text = pieces.map((piece) => textIn(piece) ?? '').join('')
  return { text, pieces, done: { ...choice, ...figures } }
}

/** Combines the pieces of an answer's reasoning, and those of each tool call. */
export function structured ({ pieces }: { pieces: AnswerChunk[] }): {
  thought: string, calls: { id?: string | undefined, name: string | undefined, input: string }[]
} {
  const deltas = pieces.flatMap(({ choices }) => choices.map(({ delta }) => delta ?? {}))
  const calls: { id?: string | undefined, name: string | undefined, input: string }[] = []
  for (const { index, id, function: { name, arguments: input = '' } } of
    deltas.flatMap(({ tool_calls: made }) => made ?? [])) {
    const known = calls[index] ??= { id, name, input: '' }
    known.input += input
  }
  return { thought: deltas.map(({ reasoning_content: text }) => text ?? '').join(''), calls }
}

/** A chat request whose last word selects the stand-in's behaviour. */
export const talk = (word: string, more: Entry = {}): Entry =>
  ({ messages: [{ role: 'user', content: `please ${word}` }], ...more })
