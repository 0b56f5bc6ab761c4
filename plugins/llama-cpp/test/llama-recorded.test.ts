/** Checks that the stand-in's responses equal those recorded from the tested llama-server build. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { serverError } from '../server/errors.js'

const read = (path: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as Record<string, unknown>
const recorded = read('fixtures/llama-recorded.json')
const answers = recorded['answers'] as Record<string, { status: number, body: unknown }>

t.test('the recordings are of the pinned build', async (t) => {
  const { release, build } = read('../../../test/llama/pin.json')
  t.same([recorded['release'], recorded['build']], [release, build],
    'they are older: npm run test:real -- record')
})

t.test('errors of the real server', async (t) => {
  const of = (name: string) => serverError(answers[name]!.body, 'm', answers[name]!.status)
  t.match(of('tooLong'),
    { reason: 'context_length_exceeded', details: { prompt_tokens: 401, context_length: 256 } })
  t.match(of('grammar'), { reason: 'invalid_request', message: /JSON schema error/ })
  t.match(of('repeat'), { reason: 'invalid_request', message: /repeat_last_n/ })
  t.match(of('unknown'), { reason: 'provider_error', message: /File Not Found/ })
  t.match(of('key'), { reason: 'provider_error', message: /Invalid API Key/ })
})
