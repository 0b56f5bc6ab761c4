import { readFileSync } from 'node:fs'
import t from 'tap'
import { loopFinder } from '../repetition.js'
import {
  SAMPLING, modelSampling, nullableFields, parametersOf, samplingOf, strictFields
} from '../../runners/language/sampling.js'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

t.test('the README lists the parameters as the table has them', async (t) => {
  const [, listed] = /## Sampling parameters[^]*?\| --- \|\n([^]*?)\n\n/.exec(readme) ?? []
  const rows = Object.entries(SAMPLING).map(([parameter, row]) => {
    const of = (user: 'responses' | 'anthropic' | 'ollama' | 'cli') =>
      parametersOf(user).find((listed) => listed.parameter === parameter)
    const given = [of('responses')?.name, of('anthropic')?.name, of('ollama')?.name, of('cli')?.flag]
    const names = [parameter, ...given].map((name) => name === undefined ? '' : `\`${name}\``)
    const values = row.max === Number.MAX_SAFE_INTEGER ? 'whole numbers' : `${row.min} to ${row.max}`
    const cells = [...names, values, row.default ?? 'another one each time']
    return `${cells.map((cell) => cell === '' ? '|' : `| ${cell}`).join(' ')} |`
  })
  t.equal(listed, rows.join('\n'))
})

t.test('each API has its own names and ranges; tasks have the names of the chat API', async (t) => {
  t.match(nullableFields('ollama'), { repeat_penalty: { type: ['number', 'null'], minimum: 0.01 } })
  t.notOk('repetition_penalty' in nullableFields('ollama'))
  t.strictSame(strictFields('anthropic').temperature, { type: 'number', minimum: 0, maximum: 1 })
  t.strictSame(Object.keys(nullableFields('responses')), ['temperature', 'top_p'])
  t.strictSame(samplingOf('ollama', { repeat_penalty: 1.1, repetition_penalty: 9, top_k: -1, seed: null }),
    { top_k: 0, repetition_penalty: 1.1 })
  t.match(nullableFields('ollama').repeat_last_n, {
    minimum: -1, description: /^number of last tokens/
  })
  t.strictSame(samplingOf('chat', null), {})
})

t.test('what a model sets itself: generation_config.json, else the metadata of its file', (t) => {
  const metadata = (values: object): Map<string, unknown> =>
    new Map(Object.entries(values).map(([name, value]) => [`general.sampling.${name}`, value]))
  const cases: [Map<string, unknown>, object, object][] = [
    [new Map(), {}, {}],
    [metadata({ temp: Math.fround(0.6), top_k: -1, penalty_repeat: 1.1, penalty_last_n: 32, xtc: 1 }), {},
      { temperature: 0.6, top_k: 0, repetition_penalty: 1.1, repeat_last_n: 32 }],
    [metadata({ temp: 1, min_p: 0.1 }), { temperature: 0.7, top_p: 0.8, do_sample: true, eos_token_id: 2 },
      { temperature: 0.7, top_p: 0.8, min_p: 0.1 }],
    // Invalid values are treated as absent.
    [metadata({ temp: NaN, top_p: 7, top_k: 1.5, min_p: 'x', penalty_repeat: null }),
      { temperature: '1', top_k: -9, top_p: [1] }, {}]
  ]
  for (const [file, config, defaults] of cases) {
    t.same(modelSampling(file, config as Record<string, unknown>), defaults)
  }
  t.end()
})

t.test('loops of answers', (t) => {
  const loops = (text: string, size = 7): boolean => {
    const isLoop = loopFinder()
    return (text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []).some(isLoop)
  }
  const count = Array.from({ length: 900 }, (_, i) => `${i}, `).join('')
  const story = Array.from({ length: 300 }, (_, i) => `word${i * i % 977} `).join('')
  const fine = ['', story, count, `${'-'.repeat(700)}\n`, 'ha '.repeat(200),
    Buffer.alloc(2_000).toString('base64'), story.slice(0, 900).repeat(3)]
  for (const text of fine) {
    t.equal(loops(text), false, text.slice(0, 20))
  }
  for (const text of ['\n'.repeat(1_000), `${story}${'ha '.repeat(400)}`, story.slice(0, 900).repeat(5)]) {
    for (const size of [1, 7, 5_000]) t.equal(loops(text, size), true, text.slice(0, 20))
  }
  t.end()
})
