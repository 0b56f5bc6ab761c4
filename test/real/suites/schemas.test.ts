/**
 * The schemas of the JSON-Schema-Test-Suite as strict response formats. Each compiled grammar refuses the
 * values that the suite calls invalid; an answer with 200 is valid; the other schemas are refused with 400,
 * for the reasons of schemas.json. The suite is in the source archive of the package jsonschema on PyPI.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { compileSchema } from '../../../plugins/llama-cpp/grammar/json-schema-to-grammar.js'
import { admits, chance, generator, parseGbnf } from '../../../plugins/llama-cpp/test/grammar-kit.js'
import { ask } from '../../node/http.js'
import { fromPyPI } from '../../tools/pypi.js'
import { DRIVERS, pullAndPlace, serverProgram, startWith, type Driver, type Fields } from '../weights-kit.js'
import { folderOf, withoutWeights } from '../weights.js'
import { judge, suites, withoutPrograms } from './kit.js'
import type { TestNode } from '../../node/kit.js'

const DRAFTS = ['draft2020-12', 'draft7']
const MODEL = 'test/smollm2'
const SLOTS = 4
const CONTEXT = 1024
/** Maximum number of tokens of an answer. Answers that reach it are cut, so they are not judged. */
const TOKENS = 32
/** Share of the answers that have to end by themselves. */
const ENDED = 0.5
/** Maximum length of a prompt's example in characters. */
const LONGEST = 120
const SAMPLES = 20

const suite = withoutPrograms === false
  ? fromPyPI('jsonschema==4.26.0', 'jsonschema-4.26.0/json/tests', { source: true }) : null
const skipPure = withoutPrograms !== false ? withoutPrograms : suite === null && 'needs PyPI'
const program = skipPure === false ? serverProgram() : { missing: '' }
const skip = skipPure !== false ? skipPure
  : 'missing' in program ? program.missing : withoutWeights(['smollm2'])
const server = 'path' in program ? program.path : ''

interface Example { description: string, data: unknown, valid: boolean }
interface Group { description: string, schema: unknown, tests: Example[] }
interface Case { name: string, draft: string, schema: Fields, tests: Example[] }

const NOTES = ['$schema', '$comment', 'description', 'title', 'default']
/** A schema without constraints, for which every answer is right. */
const isTrivial = (schema: unknown): boolean =>
  typeof schema !== 'object' || Object.keys(schema as object).every((word) => NOTES.includes(word))

/** The schemas of both drafts, without those of draft 7 that are also in 2020-12. */
function cases (): Case[] {
  const seen = new Set<string>()
  return DRAFTS.flatMap((draft) => (readdirSync(join(suite!, draft), { recursive: true }) as string[]).sort()
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) => (JSON.parse(readFileSync(join(suite!, draft, file), 'utf8')) as Group[])
      .map(({ description, schema, tests }) =>
        ({ name: `${draft}/${file}: ${description}`, draft, schema: schema as Fields, tests }))))
    .filter(({ draft, schema }) => {
      if (isTrivial(schema)) return false
      const key = JSON.stringify({ ...schema, $schema: undefined })
      const isNew = draft === DRAFTS[0] || !seen.has(key)
      seen.add(key)
      return isNew
    })
}

/** A refusal without the place in the schema, up to the keyword. */
const reasonOf = (message: string): string => message.replace(/^\S*\//, '')

/** Values in the answers that the independent validator refuses, each with its schema. */
function invalid (answered: readonly { one: Case, value: unknown }[]): string[] {
  const verdicts = judge(answered.map(({ one: { draft, schema }, value }) =>
    ({ draft, schema, values: [value] })))
  return verdicts.flatMap((verdict, i) => {
    const { one: { name, schema }, value } = answered[i]!
    // This validator cannot load schemas with a file: address or with a custom metaschema.
    if (!Array.isArray(verdict)) {
      return /'file:' URI|unknown dialect/.test(verdict.error) ? [] : [verdict.error]
    }
    return verdict[0] === true ? [] : [`${name}: ${JSON.stringify(value)} of ${JSON.stringify(schema)}`]
  })
}

/** Schemas whose keywords only 2020-12 says are annotations. */
const IS_ANNOTATION = /^draft7\/optional\/content\.json/

t.test('grammars of strict schemas', { skip: skipPure, timeout: 300_000 }, (t) => {
  const random = chance(1)
  const admitted: string[] = []
  const made: { one: Case, value: unknown }[] = []
  let compiled = 0
  for (const one of cases()) {
    const { name, schema, tests } = one
    let grammar: string
    try {
      grammar = compileSchema(schema, { strict: true }).grammar
    } catch {
      continue
    }
    compiled += 1
    const gbnf = parseGbnf(grammar)
    const make = generator(gbnf, random, 40)
    for (let i = 0; i < SAMPLES; i++) made.push({ one, value: JSON.parse(make()) })
    if (IS_ANNOTATION.test(name)) continue
    for (const { description, data, valid } of tests) {
      if (!valid && admits(gbnf, JSON.stringify(data))) admitted.push(`${name}: ${description}`)
    }
  }
  t.ok(compiled > 200, `${compiled} grammars`)
  t.same(admitted, [], 'no value that the suite calls invalid')
  t.same(invalid(made), [], 'no random text of a grammar is invalid')
  t.end()
})

/** The example that the prompt gives: the shortest one that the schema forbids. */
function temptation ({ tests }: Case): string {
  const texts = (valid: boolean): string[] => tests.filter((each) => each.valid === valid)
    .map(({ data }) => JSON.stringify(data)).filter((text) => text.length <= LONGEST)
    .sort((a, b) => a.length - b.length)
  return texts(false)[0] ?? texts(true)[0] ?? '1'
}

interface Answer {
  status: number, warning: string | undefined, message: string, finish: string | undefined, text: string
}

async function answerOf (node: TestNode, one: Case, strict: boolean): Promise<Answer> {
  const { status, headers, json } = await ask(node, '/v1/chat/completions', { body: {
    model: MODEL, temperature: 0, max_tokens: TOKENS, frequency_penalty: 1,
    messages: [{ role: 'user', content: `Repeat this JSON: ${temptation(one)}` }],
    response_format: { type: 'json_schema', json_schema: { name: 'x', strict, schema: one.schema } }
  } })
  const { error, choices } = json as
    { error?: { message: string }, choices?: { finish_reason: string, message: { content: string } }[] }
  return { status, warning: headers['x-svc-warning'] as string | undefined, message: error?.message ?? '',
    finish: choices?.[0]?.finish_reason, text: choices?.[0]?.message.content ?? '' }
}

/** The answers to all schemas, some at a time. */
async function answersOf (
  node: TestNode, all: readonly Case[], strict: boolean
): Promise<(Answer & { one: Case })[]> {
  const answers: (Answer & { one: Case })[] = []
  const work = all.entries()
  await Promise.all(Array.from({ length: SLOTS }, async () => {
    for (const [i, one] of work) answers[i] = { one, ...await answerOf(node, one, strict) }
  }))
  return answers
}

/** Recursive schemas, as OpenAI documents them, and schemas that are booleans. */
const DOCUMENTED: Case[] = Object.entries({
  'the root': { properties: {
    label: { type: 'string', maxLength: 3 }, children: { type: 'array', items: { $ref: '#' }, maxItems: 1 }
  } },
  'a definition': { properties: { list: { $ref: '#/$defs/node' } }, $defs: { node: {
    type: 'object', properties: { value: { type: 'integer' }, next: {
      anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }]
    } }, additionalProperties: false, required: ['next', 'value']
  } } },
  booleans: { properties: { any: true, none: { type: 'array', items: false } } }
}).map(([name, more]) => ({
  name, draft: DRAFTS[0]!, tests: [],
  schema: { type: 'object', required: Object.keys(more.properties), additionalProperties: false, ...more }
}))

/** The number of schemas that may be refused for each reason. */
const LISTED = JSON.parse(readFileSync(join(suites, 'schemas.json'), 'utf8')) as Record<string, number>

async function checkStrict (t: Test, node: TestNode, driver: Driver): Promise<Map<string, Case>> {
  const answers = await answersOf(node, [...DOCUMENTED, ...cases()], true)
  t.same(answers.slice(0, DOCUMENTED.length).map(({ status }) => status), DOCUMENTED.map(() => 200),
    `${driver}: documented schemas`)
  const refused: Record<string, number> = {}
  const examples = new Map<string, Case>()
  for (const { one, message } of answers.filter(({ status }) => status === 400)) {
    const reason = reasonOf(message)
    refused[reason] = (refused[reason] ?? 0) + 1
    examples.set(reason, one)
  }
  t.comment(`${driver}: refused ${JSON.stringify(refused, null, 1)}`)
  const more = Object.entries(refused).filter(([reason, count]) => count > (LISTED[reason] ?? 0))
  t.same(more, [], `${driver}: refused for the reasons of schemas.json, and not more often`)
  const others = answers.filter(({ status }) => status !== 200 && status !== 400)
  t.same(others, [], `${driver}: 200 or 400`)
  const served = answers.filter(({ status }) => status === 200)
  const ended = served.filter(({ finish }) => finish === 'stop')
  t.comment(`${driver}: ${answers.length} schemas, ${served.length} served, ${ended.length} ended`)
  t.ok(ended.length >= ENDED * served.length, `${driver}: ${ended.length} of ${served.length} end`)
  const values = ended.map(({ one, text }) => ({ one, value: JSON.parse(text) as unknown }))
  t.same(invalid(values), [], `${driver}: no answer is invalid`)
  return examples
}

/** Without `strict`, what no grammar expresses is warned of. */
async function checkLenient (
  t: Test, node: TestNode, driver: Driver, examples: ReadonlyMap<string, Case>
): Promise<void> {
  const [reasons, all] = [[...examples.keys()], [...examples.values()]]
  for (const [i, { status, warning, message }] of (await answersOf(node, all, false)).entries()) {
    const reason = reasons[i]!
    const what = `${driver}, not strict: ${reason}`
    if (!reason.includes('cannot be')) t.equal(status, 400, what)
    // An answer that ends, and breaks a keyword that is not enforced, is an error.
    else if (status !== 200) t.match(message, /it is checked after the answer|\(\S+ of /, what)
    else t.match(warning, /^not enforced: /, what)
  }
}

for (const driver of DRIVERS) {
  t.test(`strict schemas by the ${driver}`, { skip, timeout: 1_200_000 }, async (t) => {
    const node = await startWith(t, driver, server)
    await pullAndPlace(t, node, folderOf('smollm2'), MODEL, ['--ctx', `${CONTEXT}`, '--slots', `${SLOTS}`])
    const examples = await checkStrict(t, node, driver)
    await checkLenient(t, node, driver, examples)
    await node.kill()
  })
}
