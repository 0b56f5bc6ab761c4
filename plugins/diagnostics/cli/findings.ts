import { delay, systemClock } from '../../../kernel/index.js'
import { count, MOMENTS, parseTimeOrIndex, plain, type Verb } from '../../../kernel/cli/index.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { routes } from '../routes.js'

type Answer = FromSchema<(typeof routes.findings)['reply']>
type Row = Answer['findings'][number]

/** Poll interval of `--follow` in ms. */
const PACE_MS = 5000
const colours = { error: 'red', warn: 'yellow', info: 'dim' } as const

export default {
  async run (ctx, _, { since, subject, follow }) {
    const from = since === undefined ? undefined : parseTimeOrIndex(String(since), systemClock.now())
    if (from === null || /^\d+$/.test(from ?? '')) throw ctx.fail(2, `--since ${String(since)}: ${MOMENTS}`)
    const query = new URLSearchParams({
      ...from === undefined ? {} : { since: from }, ...subject === undefined ? {}
        : { subject: String(subject) }
    }).toString()
    const shown = new Set<string>()
    for (;;) {
      const answer = await ctx.client.json<Answer>(`/v1/findings?${query}`)
      const rows = answer.findings.filter((row) => !shown.has(keyOf(row)))
      for (const row of rows) shown.add(keyOf(row))
      if (ctx.out.json) ctx.out.value(follow === true ? { ...answer, findings: rows } : answer)
      else for (const row of rows) show(row)
      if (follow !== true) {
        for (const text of answer.unknown) ctx.err.line(plain(text))
        ctx.err.line(count(rows.length, 'finding'))
        return
      }
      await delay(systemClock, PACE_MS, ctx.signal)
    }

    function show ({ severity, since: began, ended, code, summary, cause, remedy }: Row): void {
      const paint = ctx.io.stdout.isTTY === true ? ctx.err.paint : (_: string, text: string): string => text
      const word = ended ? 'past' : severity
      ctx.out.line(`${paint(colours[severity], word.padEnd(5))}  ${(began ?? '').slice(0, 19).padEnd(19)}  ` +
        `${plain(summary)} [${code}]${cause === null ? '' : ` (because of ${cause})`}`)
      if (remedy !== null && !ended) ctx.out.line(`       ${plain(remedy)}`)
    }
  }
} satisfies Verb

const keyOf = ({ code, subject, since, ended }: Row): string => JSON.stringify([code, subject, since, ended])
