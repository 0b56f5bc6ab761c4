/** Grammars that restrict an answer. */
import { reasonings, type ReasoningName, type Thoughts } from '../text/reasoning.js'
import type { ToolFormatName } from '../text/tools/index.js'
import type { Fields } from '../../runners/language/json.js'
import { answerGrammar, callGrammar, notEnforced, requiresCall } from '../structure.js'
import { enforcedFormat } from './formats.js'

/** The formats of an answer to a prompt. */
export interface Writing {
  tools: ToolFormatName | null
  reasoning: ReasoningName | null
  thoughts: Thoughts
}

/** The grammar, null for none, and the format that reads calls written by it. `warnings`: of both. */
export interface Constraint { gbnf: string | null, tools: ToolFormatName | null, warnings: string[] }

/** @throws EngineError invalid_request */
export function constraintOf (payload: Fields, writing: Writing): Constraint {
  const { grammar: given } = payload
  const answer = answerGrammar(payload)
  if (typeof given === 'string' && given !== '') return { gbnf: given, tools: writing.tools, warnings: [] }
  const mustCall = writing.tools !== null && requiresCall(payload)
  const mayCall = writing.tools !== null && answer !== null
  if (!mustCall && !mayCall) {
    const gbnf = answer === null ? null : behind(answer.grammar, writing)
    return { gbnf, tools: writing.tools, warnings: answer === null ? [] : notEnforced(answer) }
  }
  const { reader, format } = enforcedFormat(writing.tools ?? 'hermes')
  const calls = callGrammar(payload, format)
  const whole = mustCall || answer === null ? calls.grammar : either(answer.grammar, calls.grammar)
  const unenforced = [...mustCall ? [] : answer?.unenforced ?? [], ...calls.unenforced]
  return { gbnf: behind(whole, writing), tools: reader, warnings: notEnforced({ unenforced }) }
}

/** Prefixes the names of rules, so that one grammar can contain two. */
const renamed = (gbnf: string, prefix: string): string =>
  gbnf.replace(/"(?:\\.|[^"\\])*"?|\[(?:\\.|[^\]\\])*\]?|#.*|[a-zA-Z][\w-]*/g,
    (part) => /^[a-zA-Z]/.test(part) ? prefix + part : part)

const either = (answer: string, calls: string): string =>
  `root ::= a-root | c-root\n${renamed(answer, 'a-')}\n${renamed(calls, 'c-')}`

/** The grammar, with reasoning in front of it where the prompt leaves room for that. */
function behind (gbnf: string, { reasoning, thoughts }: Writing): string {
  if (reasoning === null || thoughts === 'over' || reasonings[reasoning].channels === true) return gbnf
  const { opens, closes } = reasonings[reasoning]
  const thought = `thought ${literal(closes)} space`
  const start = thoughts === 'inside' ? thought : `(space ${literal(opens)} ${thought})?`
  return [`root ::= ${start} a-root`, `thought ::= (${without(closes)})*`, 'space ::= [ \\t\\n]{0,8}',
    renamed(gbnf, 'a-')].join('\n')
}

const literal = (text: string): string => JSON.stringify(text)

/** Text without a word: each character but its first, or a beginning of it and another character. */
function without (word: string): string {
  const chars = [...word]
  return chars.map((char, i) => {
    const before = i === 0 ? '' : `${literal(chars.slice(0, i).join(''))} `
    return `${before}[^${/[\]\\^-]/.test(char) ? `\\${char}` : char}]`
  }).join(' | ')
}
