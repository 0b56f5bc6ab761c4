import { systemClock } from '../../../kernel/api/clock.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { RunnersService, type Runners } from '../../runners/service.js'
import plugin from '../index.js'
import type { EngineError, EngineTask, ModelCard } from '../../../kernel/index.js'

export const MODEL = 'acme/whisper'
const SEGMENT = {
  event: 'segment', id: 0, start: 0, end: 1, text: ' Hello.', tokens: [1], temperature: 0, avg_logprob: -0.1,
  compression_ratio: 1, no_speech_prob: 0
}

/** Bytes of a form; a string is a field, bytes are a file. */
async function multipart (fields: readonly (readonly [string, string | Uint8Array<ArrayBuffer>])[]) {
  const form = new FormData()
  for (const [name, value] of fields) {
    if (typeof value === 'string') form.append(name, value)
    else form.append(name, new Blob([value]), 'sound.wav')
  }
  const request = new Request('http://svc/', { method: 'POST', body: form })
  const headers = { 'content-type': request.headers.get('content-type')! }
  return { headers, payload: Buffer.from(await request.arrayBuffer()) }
}

/** A node with one model, whose engine counts the bytes of its input. */
export async function start (
  test: Parameters<typeof startPlugin>[0],
  { models = [MODEL], config = {}, fail, hold = false }:
  { models?: string[], config?: object, fail?: EngineError, hold?: boolean } = {}
) {
  let resolve = (): void => {}
  const held = { promise: new Promise<void>((done) => { resolve = done }), resolve: () => { resolve() } }
  if (!hold) held.resolve()
  const tasks: { task: EngineTask, bytes: number }[] = []
  const cards = models.map((modelId) => ({ modelId, tasks: ['stt'] }) as unknown as ModelCard)
  const runners = fake(RunnersService, {
    route: async ({ modelId }: { modelId: string }) =>
      ({ taskId: 't', nodeId: 'n', installId: 'i-n', instanceId: 'i', runnerId: 'r', modelId }),
    async * open (_route: unknown, task: EngineTask) {
      const seen = { task, bytes: 0 }
      tasks.push(seen)
      yield { payload: { queue: 1 } }
      await held.promise
      if (fail !== undefined) throw fail
      for await (const bytes of task.input ?? []) {
        seen.bytes += bytes.byteLength
        if (task.payload['live'] === true) yield { payload: { event: 'partial', text: 'Hel', start: 0 } }
      }
      yield { payload: { event: 'language', language: 'en' } }
      yield { payload: SEGMENT }
      yield { payload: { event: 'done', language: 'en', duration: 1.2 } }
    },
    card: () => cards[0],
    models: () => cards.map((card) => ({ card, ready: true }))
  } as unknown as Partial<Runners>)
  const rig = await startPlugin(test, plugin, { clock: systemClock, fakes: [runners], config: { ...config } })
  const post = async (fields: Parameters<typeof multipart>[0], path = 'transcriptions') =>
    await rig.inject({ method: 'POST', url: `/v1/audio/${path}`, ...await multipart(fields) })
  return { rig, post, tasks, held }
}
