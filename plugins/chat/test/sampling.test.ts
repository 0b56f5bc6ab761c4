import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  SAMPLING, nullableFields, parametersOf, samplingOf, strictFields
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
    minimum: -1, description: /^how many of the last tokens/
  })
  t.strictSame(samplingOf('chat', null), {})
})
