/** Judges answers. Pure. */
import type { Answered, Cause, Fault, Truth, Verdict } from './types.js'

/** So many facts of an answer are looked at, for each cause: what stands further down was not told. */
const FIRST = 2
/** So many of its sentences of remedy. */
const REMEDIES = 3

/** Whether the answer names the cause, in its sentence or its first facts. */
export function namesCause (answer: Answered, cause: Cause, first = FIRST): boolean {
  const { codes, names, says } = cause
  const has = (text: string): boolean => names.every((name) =>
    text.toLowerCase().includes(name.toLowerCase()))
  const sentences = [answer.diagnosis, ...cause.unknown === true ? answer.unknown.slice(0, FIRST) : []]
  return sentences.some((text) => says?.test(text) === true && has(text)) ||
    answer.facts.slice(0, first).some(({ code, text, about }) =>
      codes.includes(code) && has([text, ...about].join(' ')))
}

/** Whether something is said to be wrong, other than what is `besides` the point. */
export const claims = ({ facts }: Answered, besides: readonly string[] = []): boolean =>
  facts.some(({ level, code }) => (level === 'fail' || level === 'warn') && !besides.includes(code))

/** Whether the answer tells what is so. */
export function tells (answer: Answered, truth: Truth): boolean {
  if (truth.kind === 'healthy') return !claims(answer, truth.besides)
  if (truth.kind === 'fault') {
    return truth.causes.every((cause) => namesCause(answer, cause, FIRST * truth.causes.length))
  }
  const text = [answer.diagnosis, ...answer.facts.slice(0, 8).map((fact) => fact.text)].join('\n')
  return truth.says.every((pattern) => pattern.test(text))
}

/** What the answer proposes that is known to mend it: a command of it, or a sentence; null without one. */
export function proposed ({ remedies }: Answered, command: RegExp): string | null {
  const first = remedies.slice(0, REMEDIES)
  const commands = first.flatMap((text) => [...text.matchAll(/`([^`]+)`/g)].map(([, one]) => one!))
  return commands.find((one) => command.test(one)) ?? first.find((one) => command.test(one)) ?? null
}

/** The verdict as far as words go; whether the command mends it shows when it is run. */
export function judge (answer: Answered | null, { truth, mend }: Pick<Fault, 'truth' | 'mend'>): Verdict {
  if (answer === null) return 'no answer'
  if (!tells(answer, truth)) return answer.sure ? 'wrong and sure' : claims(answer) ? 'wrong' : 'unsure'
  return mend !== undefined && proposed(answer, mend.command) === null ? 'no command' : 'right'
}
