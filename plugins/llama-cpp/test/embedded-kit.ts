/** Runs the embedded engine with a tiny model in this process. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import engine from '../embedded/index.js'
import { card } from '../../runners/test/samples.js'
import { SHAPE, tinyModel } from './gguf-kit.js'
import type { EngineError, EngineSession, ModelCard, ModelSpec } from '../../../kernel/api/engine.js'

interface TestCase { testdir (): string, teardown (fn: () => unknown): void }

interface Token {
  token: string, logprob: number, bytes: number[], top_logprobs: Omit<Token, 'top_logprobs'>[]
}
interface CallPiece { index: number, function: { name?: string, arguments?: string } }
interface Choice {
  index: number
  text?: string
  delta?: { content?: string, reasoning_content?: string, tool_calls?: CallPiece[] }
  logprobs?: { content: Token[] }
  finish_reason?: string
  stop_text?: string | null
}
interface Usage {
  prompt_tokens: number, completion_tokens: number, prompt_tokens_details: { cached_tokens: number }
}
export interface Chunk {
  choices: Choice[], usage: Usage, tokens: number[], text: string, [other: string]: unknown
}

/** The model card of the tiny model; `over` replaces fields. */
export function tinyCard (over: Partial<ModelCard> = {}): ModelCard {
  const { layers, hidden, heads, kvHeads, headSize, context } = SHAPE
  return card('acme/tiny', {
    tasks: ['chat', 'completions'], family: 'llama', engine: 'llama-server', backends: ['cpu'],
    files: [{ path: 'tiny.gguf', role: 'weights', bytes: 300_000 }], totalBytes: 300_000, nLayers: layers,
    hiddenSize: hidden, heads, kvHeads, headSize, contextLength: context, quantization: 'fp32', ...over
  })
}

/** A complete answer, and its chunks in order. */
export interface Whole {
  chunks: Chunk[]
  text: string
  reasoning: string
  calls: { name: string, arguments: string }[]
  logprobs: Token[]
  finish: string | null
  usage: Usage
  promptTokens: number | null
}

const NOTHING: Usage =
  { prompt_tokens: 0, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 0 } }

/** Combines the chunks of choice `index` into a complete answer. */
export function whole (given: readonly object[], index = 0): Whole {
  const chunks = given as Chunk[]
  const choices = chunks.flatMap((chunk) => chunk.choices).filter((one) => one.index === index)
  const joined = (of: (choice: Choice) => string | undefined): string =>
    choices.map((choice) => of(choice) ?? '').join('')
  const calls: Whole['calls'] = []
  const pieces = choices.flatMap(({ delta }) => delta?.tool_calls ?? [])
  for (const { index: at, function: made } of pieces) {
    calls[at] ??= { name: '', arguments: '' }
    calls[at].name += made.name ?? ''
    calls[at].arguments += made.arguments ?? ''
  }
  const admitted = chunks.find((chunk) => chunk['warnings'] === undefined)
  const last = chunks.find((chunk) =>
    chunk.choices.some((one) => one.index === index && one.finish_reason != null))
  return {
    chunks, calls,
    text: joined(({ text, delta }) => text ?? delta?.content),
    reasoning: joined(({ delta }) => delta?.reasoning_content),
    logprobs: choices.flatMap(({ logprobs }) => logprobs?.content ?? []),
    finish: last?.choices[0]?.finish_reason ?? null,
    usage: last?.usage ?? NOTHING,
    promptTokens: admitted?.choices.length === 0 ? admitted.usage.prompt_tokens : null
  }
}

/** A loaded model, which is closed at the end of the test. */
export interface Loaded {
  session: EngineSession
  /** Label and number of units that the engine passed to each call to `work`. */
  work: { label: string, units: number }[]
  chunks: (kind: string, payload: object, signal?: AbortSignal) => Promise<Chunk[]>
  ask: (payload: object) => Promise<Whole>
  complete: (payload: object) => Promise<Whole>
  /** Sends a request that must be refused, and returns the error. */
  refusal: (kind: string, payload: object) => Promise<EngineError>
}

/** Loads a tiny model; `onWork` is called before each decoding step. */
export async function loadTiny (
  t: TestCase, { file = tinyModel(), card = {}, spec = {}, onWork = () => {} }: {
    file?: Uint8Array, card?: Partial<ModelCard>, spec?: Partial<ModelSpec>, onWork?: (label: string) => void
  } = {}
): Promise<Loaded> {
  const directory = t.testdir()
  writeFileSync(join(directory, 'tiny.gguf'), file)
  return await load(t, { card: tinyCard(card), directory, ...spec }, onWork)
}

export async function load (
  t: Pick<TestCase, 'teardown'>, spec: Partial<ModelSpec> & Pick<ModelSpec, 'card' | 'directory'>,
  onWork: (label: string) => void = () => {}
): Promise<Loaded> {
  const work: Loaded['work'] = []
  const session = await engine.load({ backend: 'cpu', threads: 1, options: {}, ...spec }, {
    progress: () => {}, log: () => {},
    work: async (label, units, call) => {
      work.push({ label, units })
      onWork(label)
      return await call()
    }
  })
  t.teardown(async () => { await session.close?.() })
  const chunks: Loaded['chunks'] = async (kind, payload, signal = new AbortController().signal) => {
    const found: Chunk[] = []
    const task = { kind, payload: { ...payload } }
    for await (const { payload: chunk } of session.run(task, signal)) found.push(chunk as unknown as Chunk)
    return found
  }
  return {
    session, work, chunks,
    ask: async (payload) => whole(await chunks('chat', { messages: HELLO, ...payload })),
    complete: async (payload) => whole(await chunks('completion', { prompt: 'once', ...payload })),
    refusal: async (kind, payload) => {
      try {
        await chunks(kind, payload)
      } catch (error) {
        return error as EngineError
      }
      throw new Error('nothing was refused')
    }
  }
}

/** Invalid biases and conversation endings, which the embedded engine and llama-server's driver refuse. */
export const ODD_BIAS: unknown[] = [{ one: 1 }, { '-1': 1 }, { 5: 'x' }, { 5: 101 }, [[5, 1]], 7]
const ANSWER = { role: 'assistant', content: 'So' }
export const ODD_ENDS: object[][] = [[ANSWER, ANSWER], [{ role: 'assistant', content: '' }],
  [{ ...ANSWER, tool_calls: [{ id: 'x', function: { name: 'look', arguments: '{}' } }] }]]

export const HELLO = [{ role: 'user', content: 'hello' }]
