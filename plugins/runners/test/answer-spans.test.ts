import t from 'tap'
import { SpanRecorder } from '../process/span-recorder.js'
import { AnswerSpans } from '../language/spans.js'

t.test('the spans of an answer follow one another without a gap', (t) => {
  let now = 0
  const recorder = new SpanRecorder(() => now)
  for (const index of [0, 1]) {
    now = 0
    const steps = new AnswerSpans(recorder, index)
    now = 5
    steps.started()
    for (const written of [1, 2, 3]) {
      now += 10
      steps.token(written, 7)
    }
    steps.ended({ input_tokens: 7, output_tokens: 3 })
  }
  const named = (suffix: string): unknown[] => recorder.spans()
    .filter(({ name }) => name.endsWith(' 1') === (suffix !== ''))
    .map(({ name, category, startMs, endMs, attrs }) => [name, category, startMs, endMs, attrs])
  for (const suffix of ['', ' 1']) {
    t.same(named(suffix), [
      [`wait${suffix}`, 'queue', 0, 5, undefined],
      [`generate${suffix}`, 'generate', 5, 35, { input_tokens: 7, output_tokens: 3 }],
      [`prefill${suffix}`, 'prefill', 5, 15, { tokens: 7 }],
      [`decode${suffix}`, 'decode', 15, 25, undefined],
      [`decode${suffix}`, 'decode', 25, 35, undefined]
    ])
  }
  t.end()
})
