import { plain, readPipe } from '../../../kernel/cli/index.js'
import { guideSearch } from '../guide/index.js'
import type { Found } from '../guide/index.js'
import type { Verb } from '../../../kernel/cli/index.js'

/** What is read of a pipe, characters: a question is shorter, and a log is not one. */
const STDIN_MAX = 4096

/**
 * `svc help QUESTION`: prints the answer, and says so where it is unsure; with `--json` what was found as it
 * is. `-` takes the question from a pipe. Needs no node. The exit status is 0, also for a question about
 * another subject.
 */
export default {
  async run (ctx, words) {
    const asked = words.join(' ')
    // A character has at most 4 bytes.
    const piped = asked === '-' ? (await readPipe(ctx, 4 * STDIN_MAX)).toString('utf8') : undefined
    const question = (piped?.slice(0, STDIN_MAX) ?? asked).trim()
    if (question === '') throw ctx.fail(2, 'there is no question: svc help how do I pull a model')
    const found = guideSearch(await ctx.declared())(question)
    if (ctx.out.json) ctx.out.value({ question, ...found })
    else for (const line of linesOf(found)) ctx.out.line(plain(line))
  }
} satisfies Verb

/** The answer as lines of text. */
export function linesOf ({ answer, id, sure, near }: Found): string[] {
  const others = near.filter((one) => one.id !== id)
  const more = others.length === 0 ? [] : ['', 'See also:', ...others.map(({ title }) => `  ${title}`)]
  if (sure) return [...answer.split('\n'), ...more]
  return [
    'I am not sure what you mean. The nearest I know:', '',
    ...near.map(({ title }) => `  ${title}`), '',
    ...(others.length === near.length ? answer.split('\n') : [`${near[0]!.title}: ${answer}`])
  ]
}
