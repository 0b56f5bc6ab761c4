/** Creates the grammars that constrain an answer. */
import { reasonings, type ReasoningName, type ReasoningState } from '../text/reasoning.js'
import type { ToolFormatName } from '../text/tools/index.js'
import type { Fields } from '../../runners/language/json.js'
import { requiresCall } from '../../runners/language/structure.js'
import { answerGrammar, callGrammar, notEnforced } from '../structure.js'
import { enforcedFormat } from './formats.js'

/** Formats of an answer; `tools` is null if the request has no tools. */
export interface AnswerFormats {
  tools: ToolFormatName | null, reasoning: ReasoningName | null, thoughts: ReasoningState
}

/** The grammar that constrains an answer (null for none), and the formats with which to parse the answer. */
export interface Constraint {
  gbnf: string | null, tools: ToolFormatName | null, reasoning: ReasoningName | null, warnings: string[]
}

/** @throws EngineError invalid_request */
export function constraintOf (payload: Fields, writing: AnswerFormats): Constraint {
  const { grammar: given } = payload
  const { tools, reasoning } = writing
  if (typeof given === 'string' && given !== '') return { gbnf: given, tools, reasoning, warnings: [] }
  const mustCall = tools !== null && requiresCall(payload)
  const answer = mustCall ? null : answerGrammar(payload)
  if (answer === null && !mustCall) return { gbnf: null, tools, reasoning, warnings: [] }
  const enforced = tools === null ? null : enforcedFormat(tools)
  const calls = enforced === null ? null : callGrammar(payload, enforced.format)
  const all = [answer, calls].filter((each) => each !== null)
  return {
    gbnf: behind(either(all.map(({ grammar }) => grammar)), writing), tools: enforced?.reader ?? null,
    // The grammar does not admit channel markers, so do not parse channels.
    reasoning: hasChannels(reasoning) ? null : reasoning, warnings: notEnforced(all)
  }
}

const hasChannels = (reasoning: ReasoningName | null): boolean =>
  reasoning !== null && reasonings[reasoning].channels === true

/** Prefixes all rule names, so that two grammars can be combined. */
const renamed = (gbnf: string, prefix: string): string =>
  gbnf.replace(/"(?:\\.|[^"\\])*"?|\[(?:\\.|[^\]\\])*\]?|#.*|[a-zA-Z][\w-]*/g,
    (part) => /^[a-zA-Z]/.test(part) ? prefix + part : part)

/** Combines one or two grammars as alternatives. */
const either = ([one = '', other]: readonly string[]): string => other === undefined ? one
  : `root ::= a-root | c-root\n${renamed(one, 'a-')}\n${renamed(other, 'c-')}`

/** Makes the grammar accept optional reasoning before the answer, if the prompt permits reasoning. */
function behind (gbnf: string, { reasoning, thoughts }: AnswerFormats): string {
  if (reasoning === null || thoughts === 'over' || hasChannels(reasoning)) return gbnf
  const { opens, closes } = reasonings[reasoning]
  const thought = `thought ${literal(closes)} space`
  const start = thoughts === 'inside' ? thought : `(space ${literal(opens)} ${thought})?`
  return [`root ::= ${start} a-root`, `thought ::= (${without(closes)})*`, 'space ::= [ \\t\\n]{0,8}',
    renamed(gbnf, 'a-')].join('\n')
}

const literal = (text: string): string => JSON.stringify(text)

/** GBNF for text without `word`: a prefix of it, maybe empty, then a character that does not continue it. */
function without (word: string): string {
  const chars = [...word]
  return chars.map((char, i) => {
    const before = i === 0 ? '' : `${literal(chars.slice(0, i).join(''))} `
    return `${before}[^${/[\]\\^-]/.test(char) ? `\\${char}` : char}]`
  }).join(' | ')
}
