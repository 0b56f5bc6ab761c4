/**
 * Models that people run, in whole nodes: the same answers as the bare programs on the same files, structured
 * answers that are valid, and memory as counted. `npm run test:real -- weights`.
 */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { existsSync, readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { cosine, judge } from '../models/kit.js'
import { ask, type At } from '../node/http.js'
import { cmdline, descendants } from '../node/proc.js'
import {
  answerOf, bareLibrary, bareServer, CONTEXT, DRIVERS, memoryOf, pullAndPlace, serverProgram, SLOTS,
  startWith, textOf, type Fields, type Text
} from './weights-kit.js'
import { folderOf, withoutWeights } from './weights.js'
import type { TestNode } from '../node/kit.js'

/** Allowed difference of log probabilities. */
const LOGPROB = 0.001
const COSINE = 0.9999
/** Allowed difference between counted and used memory: a tenth, or this number of MiB. */
const MIB = 64
const SHARE = 0.1

const MODELS = ['smollm2', 'gemma3']
const program = serverProgram()
const skip = 'missing' in program ? program.missing : withoutWeights([...MODELS, 'minilm'])
const server = 'path' in program ? program.path : ''

const PROMPT = 'The capital of France is'
const QUESTION = [{ role: 'user', content: 'How many legs does a cat have?' }]

/** Whether two answers have the same text and the same log probabilities. */
function compare (t: Test, own: Text, bare: Text, what: string): void {
  t.equal(own.text, bare.text, what)
  t.ok(bare.logprobs.length > 0)
  t.equal(own.logprobs.length, bare.logprobs.length, `${what}: as many tokens`)
  const off = Math.max(...own.logprobs.map((each, i) => Math.abs(each - bare.logprobs[i]!)))
  t.ok(off <= LOGPROB, `${what}: log probabilities differ by ${off}`)
}

const WEATHER = {
  type: 'object', required: ['city', 'days'], additionalProperties: false,
  properties: { city: { enum: ['Oslo', 'Rome'] }, days: { type: 'integer', minimum: 1, maximum: 7 } }
}
const CLOCK = {
  type: 'object', required: ['zone'], additionalProperties: false,
  properties: { zone: { type: 'string', pattern: '^[A-Z]{3}$' } }
}
const OFFERED: Record<string, object> = { weather: WEATHER, clock: CLOCK }
const TOOLS = Object.entries(OFFERED).map(([name, parameters]) =>
  ({ type: 'function', function: { name, description: `The ${name}`, parameters } }))
const SCHEMAS = [WEATHER, CLOCK, {
  type: 'object', required: ['price', 'even', 'tags'], additionalProperties: false,
  properties: {
    price: { type: 'number', minimum: 0.5, maximum: 9.5 }, even: { type: 'integer', multipleOf: 2 },
    tags: { type: 'array', items: { enum: ['a', 'b'] }, minItems: 1, maxItems: 3 }
  }
}]

/** A schema that no grammar expresses. */
const UNIQUE = {
  type: 'object', required: ['tags'], additionalProperties: false,
  properties: { tags: { type: 'array', items: { enum: ['a', 'b'] }, uniqueItems: true } }
}

const isValid = (schema: object, text: string): boolean =>
  new Ajv2020({ strict: false }).validate(schema, JSON.parse(text))

/** Required and named calls, and strict schemas, are answered by a valid call or value. */
async function structured (t: Test, node: At, model: string): Promise<void> {
  const messages = [{ role: 'user', content: 'What is the weather in Rome in the next days?' }]
  const named = Object.keys(OFFERED).map((name) => ({ type: 'function', function: { name } }))
  for (const choice of ['required', ...named]) {
    const wanted = typeof choice === 'string' ? undefined : choice.function.name
    const asked = { model, messages, tools: TOOLS, tool_choice: choice, max_tokens: 100 }
    const answer = await answerOf(node, asked)
    const calls = (answer.choice?.message?.tool_calls ?? []).map((call) => call.function)
    const valid = calls.map(({ name, arguments: given }) =>
      name === (wanted ?? name) && isValid(OFFERED[name]!, given))
    t.same([answer.status, valid], [200, [true]], `${wanted ?? 'required'}: ${answer.body}`)
  }
  const strict = (schema: object): Fields => ({
    model, messages, max_tokens: 100,
    response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } }
  })
  for (const schema of SCHEMAS) {
    const answer = await answerOf(node, strict(schema))
    const { finish_reason: finish, message } = answer.choice ?? {}
    t.same([answer.status, finish], [200, 'stop'], answer.body)
    t.ok(isValid(schema, message?.content ?? 'null'), message?.content ?? '')
  }
  const refused = await answerOf(node, strict(UNIQUE))
  t.equal(refused.status, 400, 'what no grammar expresses')
}

/** With AMX, llama.cpp copies its weights, and needs token embeddings that are also the output twice. */
const AMX = existsSync('/proc/cpuinfo') && readFileSync('/proc/cpuinfo', 'utf8').includes('amx_int8')

/** Whether the memory that placement counts is that of the processes. */
async function checkMemory (t: Test, node: TestNode, todo: string | false = false): Promise<void> {
  const { counted, peak } = await memoryOf(node)
  const fits = Math.abs(counted - peak) <= Math.max(MIB, peak * SHARE)
  t.ok(fits, `counted ${counted} MiB, used ${peak} MiB`, { todo })
}

/** Fills most of a context. */
async function fill (t: Test, node: TestNode, model: string): Promise<void> {
  const prompt = Array.from({ length: CONTEXT / 4 }, (_, i) => `word ${i % 10}`).join(' ')
  const answer = await answerOf(node, { model, prompt, max_tokens: 1 })
  t.equal(answer.status, 200, answer.body)
}

for (const name of MODELS) {
  t.test(name, { skip, timeout: 1_500_000 }, async (t) => {
    const bare = await bareServer(t, server, name)
    const logged = [{ prompt: PROMPT, logprobs: 1 }, { messages: QUESTION, logprobs: true, top_logprobs: 1 }]
    const { prompt } = (await ask(bare, '/apply-template', { body: { messages: QUESTION } })).json as
      { prompt: string }
    const expected = {
      server: [] as Text[],
      library: bareLibrary(name, [PROMPT, prompt])
    }
    // One after the other, because texts that share a batch change each other's last digits.
    for (const body of logged) expected.server.push(textOf(await answerOf(bare, body)))
    for (const driver of DRIVERS) {
      await t.test(`by the ${driver}`, async (t) => {
        const node = await startWith(t, driver, server)
        const model = `test/${name}`
        const sizes = ['--ctx', `${CONTEXT}`, '--slots', `${SLOTS}`]
        const { pulled, placed } = await pullAndPlace(t, node, folderOf(name), model, sizes)
        const commands = node.runners().flatMap(descendants).map(cmdline)
        t.equal(commands.some((line) => line.includes('llama-server')), driver === 'server', 'the driver')
        if (name === 'gemma3') for (const said of [pulled, placed]) t.match(said, /chat template/i, 'says it')
        for (const [i, body] of logged.entries()) {
          const answer = await answerOf(node, { model, ...body })
          compare(t, textOf(answer), expected[driver][i]!, i === 0 ? 'a completion' : 'a chat')
        }
        await structured(t, node, model)
        await fill(t, node, model)
        const twice = AMX && driver === 'library' && name === 'gemma3'
        await checkMemory(t, node, twice && 'placement does not count the copy')
        await node.kill()
      })
    }
  })
}

t.test('minilm', { skip, timeout: 600_000 }, async (t) => {
  const node = await startWith(t, 'library', server)
  const model = 'test/minilm'
  await pullAndPlace(t, node, folderOf('minilm'), model)
  const texts = ['The cat sits outside.', 'rain', 'Ein langer Weg am Fluss, früh am Morgen.',
    Array.from({ length: 300 }, (_, i) => `Sentence ${i} is about a river.`).join(' ')]
  const { status, json, text } = await ask(node, '/v1/embeddings', {
    body: { model, input: texts, truncate_prompt_tokens: -1 }
  })
  t.equal(status, 200, text)
  const { data } = json as { data: { embedding: number[] }[] }
  // The model was trained on texts of at most 256 tokens (sentence_bert_config.json).
  const encode = { texts, pooling: 'mean', length: 256 }
  const { vectors } = await judge(folderOf('minilm'), 'q8', { texts: [], encode })
  for (const [i, vector] of vectors.entries()) {
    const near = cosine(vector, data[i]!.embedding)
    t.ok(near >= COSINE, `cosine ${near} of text ${i}`)
  }
  await checkMemory(t, node)
})
