import t from 'tap'
import { systemClock, type Clock } from '../../../kernel/api/clock.js'
import { kernelError, type EngineChunk, type EngineTask, type ModelCard } from '../../../kernel/index.js'
import { fake, manualClock, startPlugin } from '../../../kernel/testing/index.js'
import { recordingOf } from '../../chat/test/recordings.js'
import { RunnersService, type Runners } from '../../runners/service.js'
import plugin from '../index.js'

const VOICE = 'acme/voice'

/** A node with one voice, whose engine answers `chunks`; `post` sends a speech request. */
async function start (
  test: Parameters<typeof startPlugin>[0], chunks: Partial<EngineChunk>[] | Promise<Partial<EngineChunk>[]>,
  { defaults = {}, config = {}, clock = systemClock }:
  { defaults?: object, config?: Record<string, unknown>, clock?: Clock } = {}
) {
  const tasks: EngineTask[] = []
  const card = { modelId: VOICE, voices: [{ id: 'one', name: 'One', language: 'en' }], defaults } as ModelCard
  let lists = 0
  const runners = fake(RunnersService, {
    route: async ({ modelId }: { modelId: string }) =>
      ({ taskId: 't', nodeId: 'n', installId: 'i-n', instanceId: 'i', runnerId: 'r', modelId }),
    async * open (_route: unknown, task: EngineTask) {
      tasks.push(task)
      yield * await chunks as EngineChunk[]
    },
    card: () => card,
    models: () => {
      lists++
      return [{ card, ready: true }]
    }
  } as unknown as Partial<Runners>)
  const rig = await startPlugin(test, plugin, { clock, fakes: [runners], config })
  const post = async (body: object) => await rig.inject({
    method: 'POST', url: '/v1/audio/speech', payload: { model: VOICE, input: 'Hi', ...body }
  })
  return { post, tasks, rig, lists: () => lists }
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

t.test('Open WebUI reads aloud, and lists voices and models', async (t) => {
  const { rig, tasks } = await start(t, SPOKEN)
  const audio = recordingOf('open-webui').requests.filter(({ path }) => path.startsWith('/v1/audio/'))
  const listed = { id: 'one', name: 'One', model: VOICE }
  const answers: Record<string, object> =
    { voices: { voices: [listed] }, models: { models: [{ id: VOICE }] } }
  for (const { method, path: url, headers, body, answer } of audio) {
    const payload = body === undefined ? {} : { payload: JSON.stringify(body) }
    const got = await rig.inject({ method: method as 'POST', url, headers, ...payload })
    t.match(got, { statusCode: answer.status, headers: { 'content-type': answer.type } }, url)
    if (body === undefined) t.match(got.json(), answers[url.slice('/v1/audio/'.length)]!)
    else t.match(tasks, [{ payload: { text: (body as { input: string }).input } }])
  }
  t.equal(audio.length, 3)
})

t.test('loudness: of the request, else of the card, else of the settings', async (t) => {
  const check = async (config: object, defaults: object, body: object, expected: unknown): Promise<void> => {
    const { post, tasks, lists } = await start(t, SPOKEN, { config: { ...config }, defaults })
    const { statusCode } = await post(body)
    t.ok(lists() <= 1, 'the models are listed at most once for a request')
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

t.test('a sentence that takes longer than a call may be silent', async (t) => {
  const lost = kernelError('instance_lost', 'The instance was lost.')
  const rows: [format: string, chunks: object[] | Error, status: number, expected: RegExp][] = [
    ['audio', SPOKEN, 200, /^mp3$/], ['sse', SPOKEN, 200, /bXAz.*\n\ndata: .*done/],
    ['audio', lost, 500, /instance_lost/], ['sse', lost, 200, /instance_lost/]
  ]
  for (const [format, chunks, status, expected] of rows) {
    const clock = manualClock()
    let finish = (): void => {}
    const { post, tasks } = await start(t, new Promise((resolve, reject) => {
      finish = () => { if (chunks instanceof Error) reject(chunks); else resolve(chunks) }
    }), { clock })
    const answer = post({ stream_format: format })
    while (tasks.length === 0) await new Promise((resolve) => { setImmediate(resolve) })
    for (let second = 0; second < 62; second++) await clock.advance(1000)
    finish()
    const { statusCode, body } = await answer
    t.equal(statusCode, status, format)
    t.match(body, expected, format)
  }
})
