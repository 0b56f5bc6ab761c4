/** The schemas that generators and SDKs make are taken, and what a model writes under them is valid. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { commonRules } from '../text/grammar/builder.js'
import { compileFields, compileSchema } from '../text/grammar/compile.js'
import { unenforced } from '../text/grammar/unenforced.js'
import { loadText } from '../text/index.js'
import { babble, byteLevelTokenizer, dice, modelFolder } from './text-kit.js'

interface Made { generator?: string, name: string, strict?: boolean, schema: object, unenforced?: string[] }
const recorded = (file: string): Made[] =>
  JSON.parse(readFileSync(new URL(`./fixtures/schemas/${file}`, import.meta.url), 'utf8')) as Made[]
const all = [...recorded('generated.json'), ...recorded('pydantic.json')]

const options = { strict: false, validateFormats: false, logger: false, multipleOfPrecision: 9 } as const
const [newer, older] = [new Ajv2020(options), new Ajv(options)]
const common = commonRules(false)
const SEEDS = process.env['SVC_TEST_FULL'] === '1' ? 40 : 1
const MOST = 700

/** What is not enforced of zod's types: properties of Unicode; a host name's length beside its form. */
const LEFT_OUT: Readonly<Record<string, string[]>> =
  { emoji: ['s/properties/emoji/pattern'], formats: ['s/properties/host/pattern'] }
const leftOut = ({ name, generator, unenforced: said = [] }: Made): string[] =>
  generator === undefined ? said : LEFT_OUT[name] ?? said

t.test('each is taken whole, or what of it is not enforced is named, or refused with strict', async (t) => {
  t.ok(all.length > 80)
  for (const made of all) {
    const { generator = 'by documentation', name, schema, strict } = made
    const what = `${generator}: ${name}`
    t.same(unenforced(schema, 's'), leftOut(made), what)
    const strictly = (): unknown => compileSchema(schema, 's', common)
    if (leftOut(made).length === 0) t.doesNotThrow(strictly, `${what}, strict`)
    else if (strict === true) t.throws(strictly, { message: new RegExp(leftOut(made)[0] ?? '') }, what)
  }
})

t.test('as parameters of tools, in a writing of their own', async (t) => {
  const writing = {
    raw: '</v>',
    brackets: (make: Parameters<Parameters<typeof compileFields>[3]['brackets']>[0]) => {
      const none = make.pattern('')
      return { open: none, comma: none, close: none, end: none }
    },
    entry: (...[make, name, value]: Parameters<Parameters<typeof compileFields>[3]['entry']>) =>
      make.entry(name, value)
  }
  for (const { name, schema } of all.filter((made) => /zodFunction|tools/.test(made.generator ?? ''))) {
    t.doesNotThrow(() => compileFields(schema, 's', common, writing, { strict: false }), name)
  }
})

t.test('whatever a model wants to write under one of them is valid', async (t) => {
  const model = await loadText(await modelFolder(t.testdir(),
    { 'tokenizer.json': byteLevelTokenizer(60), 'tokenizer_config.json': { eos_token: '<|end|>' } }))
  const seen = new Set<string>()
  for (const made of all) {
    const { generator, name, schema } = made
    const text = JSON.stringify(schema)
    if (seen.has(text)) continue
    seen.add(text)
    const ajv = /draft-07/.test(text) ? older : newer
    const valid = ajv.compile(schema)
    for (let seed = 0; seed < SEEDS; seed++) {
      const grammar = { kind: 'schema', schema } as const
      const { text: said, ended } = babble(model, { grammar, maxTokens: MOST, temperature: 1, seed },
        dice(seed), MOST)
      const value: unknown = ended ? JSON.parse(said) : undefined
      const fits = ended && valid(value)
      if (fits || leftOut(made).length > 0) continue
      t.fail(`${generator}: ${name}`, { said, errors: valid.errors })
    }
  }
})
