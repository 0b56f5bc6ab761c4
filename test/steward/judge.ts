/** Judges the steward's answers. Pure. */
import type { Answered, Cause, Fault, Truth, Verdict } from './types.js'

/** Number of leading facts that are searched for a cause; later facts do not count. */
const FIRST = 2
/** Number of leading remedies that are searched. */
const REMEDIES = 3

/** Whether the diagnosis or one of the first facts names the cause. */
export function namesCause (answer: Answered, cause: Cause, first = FIRST): boolean {
  const { codes, names, says } = cause
  const has = (text: string): boolean => names.every((name) =>
    text.toLowerCase().includes(name.toLowerCase()))
  const sentences = [answer.diagnosis, ...cause.unknown === true ? answer.unknown.slice(0, FIRST) : []]
  return sentences.some((text) => says?.test(text) === true && has(text)) ||
    answer.facts.slice(0, first).some(({ code, text, about }) =>
      codes.includes(code) && has([text, ...about].join(' ')))
}

/** Whether the answer reports a problem whose code is not in `besides`. */
export const reportsProblem = ({ facts }: Answered, besides: readonly string[] = []): boolean =>
  facts.some(({ level, code }) => (level === 'fail' || level === 'warn') && !besides.includes(code))

/** Whether the answer states the true condition of the cluster. */
export function statesTruth (answer: Answered, truth: Truth): boolean {
  if (truth.kind === 'healthy') return !reportsProblem(answer, truth.besides)
  if (truth.kind === 'fault') {
    return truth.causes.every((cause) => namesCause(answer, cause, FIRST * truth.causes.length))
  }
  const text = [answer.diagnosis, ...answer.facts.slice(0, 8).map((fact) => fact.text)].join('\n')
  return truth.says.every((pattern) => pattern.test(text))
}

/** The first command in the leading remedies, or else the first of these sentences, that matches; or null. */
export function proposed ({ remedies }: Answered, command: RegExp): string | null {
  const first = remedies.slice(0, REMEDIES)
  const commands = first.flatMap((text) => [...text.matchAll(/`([^`]+)`/g)].map(([, one]) => one!))
  return commands.find((one) => command.test(one)) ?? first.find((one) => command.test(one)) ?? null
}

/** The verdict on the text of an answer; only running the command shows whether it fixes the fault. */
export function judge (answer: Answered | null, { truth, mend }: Pick<Fault, 'truth' | 'mend'>): Verdict {
  if (answer === null) return 'no answer'
  if (!statesTruth(answer, truth)) {
    return answer.sure ? 'wrong and sure' : reportsProblem(answer) ? 'wrong' : 'unsure'
  }
  return mend !== undefined && proposed(answer, mend.command) === null ? 'no command' : 'right'
}
