/** The plugin on the real kernel with a scripted runner. */
import { crc32, deflateSync } from 'node:zlib'
import { systemClock } from '../../../kernel/api/clock.js'
import { kernelError } from '../../../kernel/index.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { RunnersService } from '../../runners/service.js'
import plugin from '../index.js'
import type { EngineChunk, EngineTask, ModelCard, SvcError } from '../../../kernel/index.js'
import type { Rig, StartOptions, TestContext } from '../../../kernel/testing/index.js'
import type { Test } from 'tap'
import type { AnswerChunk, Choice, Finish, TokenReport } from '../../runners/language/chunks.js'

export const MODEL = 'acme/writer'
export const card = {
  modelId: MODEL, revision: 'r1', tasks: ['chat', 'completions'], family: 'llama', engine: 'onnx-lm',
  totalBytes: 1234, contextLength: 128, quantization: 'q4', description: 'Writes.', title: 'Writer',
  support: { tools: 'hermes' }, licence: 'MIT', files: [], defaults: {}, nLayers: 2
} as unknown as ModelCard

/** Tasks and models that the runner received, and the number of aborted tasks. */
export interface Asked {
  tasks: EngineTask[], models: string[], excepted: (string | undefined)[], ttls: unknown[], aborted: number
}

export type Open = (task: EngineTask, signal: AbortSignal, instanceId: string) => AsyncIterable<EngineChunk>

const chunk = (payload: AnswerChunk): EngineChunk => ({ payload: { ...payload } })
export const admitted = (): EngineChunk => chunk({ choices: [], usage: { prompt_tokens: 5 } })
export const news = (delta: Choice['delta'], index = 0): EngineChunk =>
  chunk({ choices: [{ index, delta: delta! }] })
export const delta = (content: string, index = 0, tokens?: TokenReport[]): EngineChunk => chunk({
  choices: [{ index, delta: { content }, ...tokens === undefined ? {} : { logprobs: { content: tokens } } }]
})
export const call = (name: string, input: string, index = 0, id?: string): EngineChunk => news({
  tool_calls: [{ index, ...id === undefined ? {} : { id }, function: { name, arguments: input } }]
})
export const done = (reason: Finish = 'stop', index = 0, completion = 3): EngineChunk => chunk({
  choices: [{ index, delta: {}, finish_reason: reason, stop_text: null }],
  usage: { prompt_tokens: 5, completion_tokens: completion, prompt_tokens_details: { cached_tokens: 2 } },
  timings: { prompt_per_second: 50, predicted_per_second: 20, peak_memory_bytes: 4096 }
})

/** An engine that answers with these texts. */
export const saying = (...texts: string[]): Open =>
  answering(...texts.map((said) => delta(said)), done())

/** An engine that yields reasoning, text, a call to the tool `f`, and then the given chunks. */
export const calling = (...others: EngineChunk[]): Open => answering(
  news({ reasoning_content: 'H' }), news({ reasoning_content: 'm.' }), delta('Look:'), call('f', ''),
  news({ tool_calls: [{ index: 0, function: { arguments: '{"a": 1}' } }] }), ...others, done('tool_calls'))

/** An engine that accepts the prompt and answers with these chunks. */
export const answering = (...chunks: EngineChunk[]): Open => async function * () {
  yield admitted()
  yield * chunks
}

export interface Kit {
  rig: Rig
  asked: Asked
  post (url: string, payload: object, headers?: Record<string, string>): ReturnType<Rig['inject']>
}

/** Starts the plugin. The default engine answers "Hello there.". */
export async function startChat (
  t: TestContext, { open = saying('Hello', ' there.'), cards = [], ...options }:
  StartOptions & { open?: Open, cards?: ModelCard[] } = {}
): Promise<Kit> {
  const asked: Asked = { tasks: [], models: [], excepted: [], ttls: [], aborted: 0 }
  let tries = 0
  const runners = fake(RunnersService, {
    async route ({ modelId, except, tooShort, ttlSeconds }) {
      if (tooShort !== undefined) throw kernelError('no_instance', 'no instance has a larger context')
      asked.models.push(modelId)
      asked.ttls.push(ttlSeconds)
      asked.excepted.push(except?.at(-1))
      if (modelId !== MODEL) throw kernelError('no_instance', `No instance found for model ${modelId}`)
      const instanceId = `i${++tries}`
      return { taskId: `task-${tries}`, nodeId: 'n', installId: 'i-n', instanceId, runnerId: 'r', modelId }
    },
    open (route, task, signal) {
      asked.tasks.push(task)
      signal.addEventListener('abort', () => { asked.aborted++ })
      return open(task, signal, route.instanceId)
    },
    card: (modelId) => [...cards, card].find((one) => one.modelId === modelId),
    models: (task) => card.tasks.includes(task) ? [{ card, ready: true }] : []
  })
  const rig = await startPlugin(t, plugin, { clock: systemClock, fakes: [runners], ...options })
  const post: Kit['post'] = async (url, payload, headers = {}) =>
    await rig.inject({ method: 'POST', url, payload, headers })
  return { rig, asked, post }
}

/** The `data:` values in an event stream, except `[DONE]`. */
export const values = (body: string): Record<string, never>[] =>
  body.split('\n').filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => JSON.parse(line.slice(6)) as Record<string, never>)

export function gate (): { opened: Promise<void>, open: () => void } {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => { open = resolve })
  return { opened, open }
}

/** Polls until the condition is true; the test's timeout is the limit. */
export async function until (look: () => boolean): Promise<void> {
  while (!look()) await new Promise((resolve) => { setImmediate(resolve) })
}

export const hello = { model: MODEL, messages: [{ role: 'user', content: 'Hi' }] }

/** The error a call rejects with, or null. */
export const failure = async (call: Promise<unknown>): Promise<unknown> =>
  await call.then(() => null, (error: unknown) => error)

/** A PNG of one colour, in base64. */
export function png (width: number, height: number, [red, green, blue] = [255, 0, 0]): string {
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data])
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(data.length)
    sum.writeUInt32BE(crc32(body))
    return Buffer.concat([length, body, sum])
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width)
  head.writeUInt32BE(height, 4)
  // Eight bits per channel, RGB.
  head.set([8, 2], 8)
  const line = Buffer.from([0, ...Array.from({ length: width }, () => [red!, green!, blue!]).flat()])
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head),
    chunk('IDAT', deflateSync(Buffer.concat(Array<Buffer>(height).fill(line)))),
    chunk('IEND', Buffer.alloc(0))
  ]).toString('base64')
}

/** Expects an error that names the field. */
export function namesField (t: Test, read: () => unknown, param: string): void {
  try {
    read()
    t.fail(`${param} was taken`)
  } catch (error) {
    t.equal((error as SvcError).param, param)
  }
}
