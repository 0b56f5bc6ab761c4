import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { RunnersService } from '../../runners/service.js'
import plugin from '../index.js'
import type { EngineChunk, EngineTask, ModelCard } from '../../../kernel/index.js'
import type { Runners } from '../../runners/service.js'

const VOICE = 'acme/voice'

/** A node with one voice, whose engine answers `chunks`; `post` sends a speech request. */
async function start (
  test: Parameters<typeof startPlugin>[0], chunks: Partial<EngineChunk>[],
  { defaults = {}, config = {} }: { defaults?: object, config?: Record<string, unknown> } = {}
) {
  const tasks: EngineTask[] = []
  const card = { modelId: VOICE, voices: [{ id: 'one', name: 'One', language: 'en' }], defaults } as ModelCard
  const runners = fake(RunnersService, {
    route: async ({ modelId }: { modelId: string }) =>
      ({ taskId: 't', nodeId: 'n', installId: 'i-n', instanceId: 'i', runnerId: 'r', modelId }),
    async * open (_route: unknown, task: EngineTask) {
      tasks.push(task)
      yield * chunks as EngineChunk[]
    },
    models: () => [{ card, ready: true }]
  } as unknown as Partial<Runners>)
  const rig = await startPlugin(test, plugin, { clock: systemClock, fakes: [runners], config })
  const post = async (body: object) => await rig.inject({
    method: 'POST', url: '/v1/audio/speech', payload: { model: VOICE, input: 'Hi', ...body }
  })
  return { post, tasks, rig }
}

const SPOKEN = [{
  payload: { model: VOICE, format: 'mp3', chunk_index: 0, sample_rate: 16000, is_partial: false },
  media: Buffer.from('mp3')
}]

t.test('warnings of the engine are a header, and no sound', async (t) => {
  const { post } = await start(t, [
    { payload: { warnings: ['words in Han are not spoken'] } },
    { payload: { warnings: ['the text is German, but is read as en'] } }, ...SPOKEN
  ])
  const events = /^: keep-alive\n\ndata: .*bXAz.*\n\ndata: .*done/
  for (const [format, expected] of [['audio', 'mp3'], ['sse', events]]) {
    const { headers, body } = await post({ stream_format: format })
    t.equal(headers['x-svc-warning'], 'words in Han are not spoken; the text is German, but is read as en')
    t.match(body, expected)
  }
})

t.test('Open WebUI lists voices and models', async (t) => {
  const { rig } = await start(t, SPOKEN)
  const listed = { id: 'one', name: 'One', model: VOICE }
  t.match((await rig.inject({ url: '/v1/audio/voices' })).json(), { voices: [listed] })
  t.match((await rig.inject({ url: '/v1/audio/models' })).json(), { models: [{ id: VOICE }] })
})

t.test('loudness: of the request, else of the card, else of the settings', async (t) => {
  const check = async (config: object, defaults: object, body: object, expected: unknown): Promise<void> => {
    const { post, tasks } = await start(t, SPOKEN, { config: { ...config }, defaults })
    const { statusCode } = await post(body)
    t.equal(statusCode === 200 ? tasks[0]!.payload['loudness'] : statusCode, expected)
  }
  await check({}, {}, {}, -20)
  await check({ loudness: -23 }, {}, {}, -23)
  await check({ loudness: null }, {}, {}, null)
  await check({ loudness: null }, { loudness: -18 }, {}, -18)
  await check({ loudness: -23 }, { loudness: -18 }, { loudness: -16 }, -16)
  await check({}, { loudness: -18 }, { loudness: null }, null)
  await check({}, {}, { loudness: 0 }, 400)
})
