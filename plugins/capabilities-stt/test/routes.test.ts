import t from 'tap'
import { EngineError } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { readForm } from '../upload.js'
import { MODEL, start } from './kit.js'

const sound = new Uint8Array(100_000).fill(7)

t.test('a recording becomes text, in each format and order of fields', async (t) => {
  const { post, tasks } = await start(t)
  const usage = { type: 'duration', seconds: 2 }
  const rows: [fields: [string, string][], type: RegExp, expected: string | object][] = [
    [[], /^application\/json/, { text: 'Hello.', usage }],
    [[['response_format', 'text']], /^text\/plain/, 'Hello.\n'],
    [[['response_format', 'srt']], /subrip/, '1\n00:00:00,000 --> 00:00:01,000\nHello.\n\n'],
    [[['response_format', 'verbose_json']], /json/, { text: 'Hello.', language: 'english', duration: 1.2 }],
    [[['stream', 'true']], /event-stream/,
      /delta":"Hello\."\}\n\n.*transcript\.text\.done","text":"Hello\."/s]
  ]
  for (const [fields, type, expected] of rows) {
    const model = ['model', 'whisper-1'] as [string, string]
    const file = ['file', sound] as const
    for (const order of [[model, ...fields, file], [file, ...fields, model]]) {
      const answer = await post(order)
      const headers = { 'content-type': type, 'x-svc-model': MODEL }
      t.match(answer, { statusCode: 200, headers }, answer.body)
      t.match(expected.constructor === Object ? answer.json() : answer.body, expected)
      const payload = { format: 'file', task: 'transcribe' }
      t.match(tasks.pop(), { bytes: sound.length, task: { kind: 'stt', payload } })
    }
  }
  await post([['model', MODEL], ['file', sound]], 'translations')
  t.match(tasks.pop()!.task.payload, { task: 'translate' })
})

t.test('what is refused', async (t) => {
  const undecodable = new EngineError('audio_undecodable', 'The file has no sound that can be decoded.')
  const rows: [given: Parameters<typeof start>[1], fields: [string, string | typeof sound][], status: number,
    words: RegExp][] = [
    [{}, [['model', MODEL]], 400, /file/],
    [{}, [['file', sound]], 400, /model is required/],
    [{}, [['model', MODEL], ['file', sound], ['temperature', '9']], 400, /temperature/],
    [{ models: [] }, [['model', 'whisper-1'], ['file', sound]], 404, /svc pull onnx-community\/whisper-base/],
    [{ fail: undecodable }, [['model', MODEL], ['file', sound]], 400, /audio_undecodable/],
    [{ config: { max_upload_mib: 1 } }, [['model', MODEL], ['file', new Uint8Array(1.5 * 2 ** 20)]],
      413, /1048576/]
  ]
  for (const [given, fields, status, words] of rows) {
    const { post } = await start(t, given)
    const { statusCode, body } = await post(fields)
    t.equal(statusCode, status, body)
    t.match(body, words)
  }
  const { rig, tasks } = await start(t)
  const url = '/v1/audio/transcriptions'
  const answer = await rig.inject({ method: 'POST', url, payload: { model: MODEL } })
  t.match(answer, { statusCode: 415, body: /multipart\/form-data with the fields file and model/ })
  t.equal(tasks.length, 0)
})

t.test('forms that cannot be read', async (t) => {
  const { rig, tasks } = await start(t)
  const file = '--XX\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc'
  const field = '--XX\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n'
  const rows: [payload: string, words: RegExp, boundary?: string][] = [
    ['', /form/], ['junk', /form/], [file, /form/], [field, /form/], [file, /oundary/, ''],
    [`${file}\r\n${file}\r\n--XX--\r\n`, /file must be one file/],
    [`${file.replace('"file"', '"other"')}\r\n--XX--\r\n`, /other is a file/],
    [`${field.repeat(80)}${file}\r\n--XX--\r\n`, /more than 64 fields/],
    [`${field.replace('m\r\n', 'm'.repeat(70_000))}\r\n${file}\r\n--XX--\r\n`, /model is too long/]
  ]
  for (const [payload, words, boundary = '; boundary=XX'] of rows) {
    const headers = { 'content-type': `multipart/form-data${boundary}` }
    const answer = await rig.inject({ method: 'POST', url: '/v1/audio/transcriptions', payload, headers })
    t.equal(answer.statusCode, 400, payload.slice(0, 80))
    t.match(answer.body, words)
  }
  t.equal(tasks.length, 0)
})

t.test('a client that stops sending its form', async (t) => {
  const clock = manualClock()
  const body = (async function * () {
    yield Buffer.from('--XX\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc')
    await new Promise(() => {})
  })()
  const options = { folder: t.testdir({}), limit: 1000, clock }
  const reading = readForm(body, 'multipart/form-data; boundary=XX', options)
  reading.catch(() => {})
  await new Promise((resolve) => { setImmediate(resolve) })
  await clock.advance(30_000)
  await t.rejects(reading, { reason: 'timeout', message: /No byte of the form came for 30 s/ } as never)
})

t.test('forms that wait are limited', async (t) => {
  const { post, tasks, held } = await start(t, { hold: true })
  const answers = Array.from({ length: 130 }, async () => await post([['model', MODEL], ['file', sound]]))
  const refused = (await Promise.race(answers)).statusCode
  t.equal(refused, 429)
  t.ok(tasks.length <= 8)
  held.resolve()
  const codes = (await Promise.all(answers)).map(({ statusCode }) => statusCode)
  t.equal(codes.filter((code) => code === 429).length, 10)
  t.equal(codes.filter((code) => code === 200).length, 120)
})

t.test('the capability takes sound while it is spoken', async (t) => {
  const { rig, tasks } = await start(t)
  const chunks = [{ payload: {}, media: sound }, { payload: {}, media: sound }]
  const frames = await rig.call('stt@1.0.0', { model: 'gpt-4o-transcribe', sample_rate: 24_000 }, chunks)
  t.match(tasks, [{ bytes: 2 * sound.length,
    task: { payload: { format: 'pcm', live: true, sample_rate: 24_000 } } }])
  t.match(frames.map(({ header }) => header), [
    { kind: 'started' }, { payload: { event: 'partial', text: 'Hel' } }, { payload: { event: 'partial' } },
    { payload: { event: 'language' } }, { payload: { event: 'segment', text: ' Hello.' } },
    { payload: { event: 'done' } }, { kind: 'completed' }
  ])
})
