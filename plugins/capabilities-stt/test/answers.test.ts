import t from 'tap'
import { answerOf, readFields, transcriptEvent } from '../transcribe.js'
import { toSrt, toVtt } from '../transcribe.js'
import type { SttSegment } from '../service.js'

const segment = (id: number, start: number, end: number, text: string): SttSegment => ({
  id, start, end, text, tokens: [id], temperature: 0, avg_logprob: -0.2, compression_ratio: 1,
  no_speech_prob: 0, words: [{ word: text.trim(), start, end }],
  logprobs: [{ token: text, logprob: -0.1, bytes: [...Buffer.from(text)] }]
})
const segments = [segment(0, 0, 1.5, ' Hello.'), segment(1, 3661.0014, 3662, ' A --> B')]
const transcript = { language: 'en', duration: 12.3, segments }
const fields = (given: Record<string, string | string[]>): Map<string, string[]> =>
  new Map(Object.entries({ model: 'm', ...given }).map(([name, value]) => [name, [value].flat()]))

t.test('subtitles', async (t) => {
  t.equal(toSrt(segments),
    '1\n00:00:00,000 --> 00:00:01,500\nHello.\n\n2\n01:01:01,001 --> 01:01:02,000\nA -> B\n\n')
  t.equal(toVtt(segments),
    'WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello.\n\n01:01:01.001 --> 01:01:02.000\nA -> B\n\n')
  t.equal(toVtt([]), 'WEBVTT\n\n')
})

t.test('fields of a form', async (t) => {
  const rows: [given: Record<string, string | string[]>, expected: object | RegExp][] = [
    [{}, { format: 'json', stream: false, times: ['segment'],
      request: { model: 'm', format: 'file', task: 'transcribe' } }],
    [{ language: 'en-US', prompt: 'Names', temperature: '0.5' },
      { request: { language: 'en', prompt: 'Names', temperature: 0.5 } }],
    [{ response_format: 'verbose_json', 'timestamp_granularities[]': ['word', 'segment'] },
      { times: ['word', 'segment'], request: { words: true } }],
    [{ 'include[]': 'logprobs' }, { request: { logprobs: true } }],
    [{ stream: 'true', response_format: 'text' }, { stream: true }],
    [{ chunking_strategy: 'auto', vad_filter: 'true', temperature: '' }, { format: 'json' }],
    [{ model: '' }, /^model is required/],
    [{ response_format: 'diarized_json' }, /^response_format must be one of json/],
    [{ temperature: '2' }, /^temperature must/],
    [{ temperature: 'x' }, /^temperature must/],
    [{ stream: 'maybe' }, /^stream must/],
    [{ stream: 'true', response_format: 'srt' }, /^stream needs/],
    [{ 'timestamp_granularities[]': 'word' }, /^timestamp_granularities needs/],
    [{ 'timestamp_granularities[]': 'phone', response_format: 'verbose_json' },
      /^timestamp_granularities must/],
    [{ 'include[]': 'logprobs', response_format: 'text' }, /^include needs/],
    [{ 'include[]': 'secrets' }, /^include must/]
  ]
  for (const [given, expected] of rows) {
    const name = JSON.stringify(given)
    const read = (): object => readFields(fields(given), 'transcribe')
    if (expected instanceof RegExp) t.throws(read, { message: expected }, name)
    else t.match(read(), expected, name)
  }
  const { request } = readFields(fields({ language: 'de' }), 'translate')
  t.match(request, { task: 'translate' })
  t.notOk('language' in request, 'the language is found out')
})

t.test('answers', async (t) => {
  const answer = (given: Record<string, string | string[]>): string =>
    answerOf(transcript, readFields(fields(given), 'transcribe'))
  const usage = { type: 'duration', seconds: 13 }
  t.equal(answer({ response_format: 'text' }), 'Hello. A --> B\n')
  t.same(JSON.parse(answer({})), { text: 'Hello. A --> B', usage })
  t.match(JSON.parse(answer({ 'include[]': 'logprobs' })), { logprobs: [{ token: ' Hello.' }, {}] })
  const verbose = JSON.parse(answer({ response_format: 'verbose_json' })) as object
  t.match(verbose, { task: 'transcribe', language: 'english', duration: 12.3, usage,
    segments: [{ id: 0, seek: 0, start: 0, end: 1.5, text: ' Hello.' }, {}] })
  t.notMatch(verbose, { words: [] })
  const words = answer({ response_format: 'verbose_json', 'timestamp_granularities[]': 'word' })
  t.same(Object.keys(JSON.parse(words) as object), ['task', 'language', 'duration', 'text', 'words', 'usage'])
})

t.test('events', async (t) => {
  const frame = { kind: 'chunk', payload: {}, media: null, error: null } as const
  t.equal(transcriptEvent({ ...frame, kind: 'started' }), ': keep-alive\n\n')
  t.equal(transcriptEvent(frame), null)
  t.equal(transcriptEvent({ ...frame, kind: 'completed', payload: null }), null)
  t.equal(transcriptEvent({ ...frame, payload: { type: 'x' } }), 'data: {"type":"x"}\n\n')
  t.equal(transcriptEvent({ ...frame, kind: 'failed', error: { error: {} } }), 'data: {"error":{}}\n\n')
})
