/** Validates finished answers and tool calls against their schemas, in the runner process. */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { createContext, Script } from 'node:vm'
import { EngineError } from '../../../kernel/api/engine.js'
import type { AnswerChunk, CallDelta, Choice } from './chunks.js'
import { fieldsOf, listOf, type Fields } from './json.js'
import { fromDraft7 } from './draft7.js'
import { answerSchema, requiresCall } from './structure.js'

/** Limit per check in ms, because a client's regular expression may take exponential time. */
const CHECK_MS = 250
const MAX_KEPT = 64
const context = createContext({})
const run = new Script('validate(value)')

interface Written { text: string, calls: { name: string, text: string }[] }

/**
 * Passes chunks through. Before an answer's last chunk, validates the answer's JSON and the arguments of its
 * tool calls, unless the answer reached its length limit. @throws EngineError invalid_result, or
 * tool_call_unreadable if a required call is missing
 */
export function withSchemaCheck (
  chunks: AsyncIterable<AnswerChunk>, payload: Fields
): AsyncIterable<AnswerChunk> {
  const answer = answerSchema(payload)
  const functions = new Map(listOf(payload['tools']).map((tool, i) => {
    const { name, parameters } = fieldsOf(tool['function'])
    return [name, { path: `tools.${i}.function.parameters`, schema: parameters }] as const
  }))
  return answer === null && functions.size === 0 ? chunks : validated(chunks, payload, answer, functions)
}

async function * validated (
  chunks: AsyncIterable<AnswerChunk>, payload: Fields, answer: ReturnType<typeof answerSchema>,
  functions: ReadonlyMap<unknown, { path: string, schema: unknown }>
): AsyncGenerator<AnswerChunk> {
  const answers = new Map<number, Written>()
  for await (const chunk of chunks) {
    for (const choice of chunk.choices) {
      const written = answers.get(choice.index) ?? { text: '', calls: [] }
      answers.set(choice.index, written)
      add(choice, written)
      if (choice.finish_reason == null || choice.finish_reason === 'length') continue
      for (const { name, text } of written.calls) {
        const { path = '', schema } = functions.get(name) ?? {}
        if (schema != null) check(text, schema, `the arguments of the call of ${name}`, path)
      }
      if (written.calls.length === 0 && requiresCall(payload)) {
        throw new EngineError('tool_call_unreadable',
          'the request requires a tool call, but the model made no tool call')
      }
      if (answer !== null && written.calls.length === 0) {
        check(written.text, answer.schema, 'the answer', answer.path)
      }
    }
    yield chunk
  }
}

function add ({ delta = {}, text = '' }: Choice, written: Written): void {
  written.text += (delta.content ?? '') + text
  for (const { index, function: { name, arguments: more = '' } } of delta.tool_calls ?? [] as CallDelta[]) {
    const call = written.calls[index] ??= { name: '', text: '' }
    call.name = name ?? call.name
    call.text += more
  }
}

function check (text: string, schema: unknown, what: string, path: string): void {
  const fail = (at: string, message: string, keyword: string): never => {
    const place = at === '' ? what : `${what}, at ${at}`
    throw new EngineError('invalid_result', `${place}: ${message} (${keyword} of ${path})`,
      { path: at, keyword, issues: [{ path, message }], remedy: `Retry, use a larger model, or remove ` +
        `${keyword} from the schema: it is checked after the answer, not enforced during generation.` })
  }
  let value: unknown
  try {
    value = JSON.parse(text === '' && path.startsWith('tools') ? '{}' : text)
  } catch (error) {
    return fail('', `is not JSON: ${(error as Error).message}`, 'type')
  }
  const validate = validatorOf(schema)
  if (validate === null) return
  let isValid: unknown
  try {
    isValid = run.runInContext(Object.assign(context, { validate, value }), { timeout: CHECK_MS })
  } catch {
    return fail('', `takes more than ${CHECK_MS} ms to check`, 'pattern')
  }
  if (isValid === true) return
  const { instancePath = '', message = 'is not valid', keyword = 'schema' }: Partial<ErrorObject> =
    validate.errors?.[0] ?? {}
  fail(instancePath, message, keyword)
}

const kept = new Map<string, ValidateFunction | null>()

/** Compiles a validator; null for a schema with external references or in another JSON Schema draft. */
function validatorOf (schema: unknown): ValidateFunction | null {
  const key = JSON.stringify(schema)
  let validate = kept.get(key)
  if (validate === undefined) {
    try {
      validate = new Ajv2020({ strict: false, logger: false, meta: false, validateSchema: false,
        validateFormats: false }).compile(fromDraft7(schema) as object)
    } catch {
      validate = null
    }
    for (const oldest of kept.keys()) if (kept.size >= MAX_KEPT) kept.delete(oldest)
    kept.set(key, validate)
  }
  return validate
}
