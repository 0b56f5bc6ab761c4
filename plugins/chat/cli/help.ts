import { plain, readPipe, type Verb } from '../../../kernel/cli/index.js'
import { guideSearch, type Found } from '../guide/index.js'

/** Limit on characters read from a pipe; questions are shorter. */
const STDIN_MAX = 4096

/**
 * `svc help QUESTION` prints the answer; `--json` prints the search result. `-` reads the question from a
 * pipe. Works without a node. The exit status is 0 even for questions that are not about svc.
 */
export default {
  async run (ctx, words) {
    const asked = words.join(' ')
    // A character has at most 4 bytes.
    const piped = asked === '-' ? (await readPipe(ctx, 4 * STDIN_MAX)).toString('utf8') : undefined
    const question = (piped?.slice(0, STDIN_MAX) ?? asked).trim()
    if (question === '') throw ctx.fail(2, 'the question is missing: svc help how do I pull a model')
    const found = guideSearch(await ctx.declared())(question)
    if (ctx.out.json) ctx.out.value({ question, ...found })
    else for (const line of linesOf(found)) ctx.out.line(plain(line))
  }
} satisfies Verb

export function linesOf ({ answer, id, sure, near }: Found): string[] {
  const others = near.filter((one) => one.id !== id)
  const more = others.length === 0 ? [] : ['', 'See also:', ...others.map(({ title }) => `  ${title}`)]
  if (sure) return [...answer.split('\n'), ...more]
  return [
    'I am not sure what you mean. The nearest subjects:', '',
    ...near.map(({ title }) => `  ${title}`), '',
    ...(others.length === near.length ? answer.split('\n') : [`${near[0]!.title}: ${answer}`])
  ]
}
