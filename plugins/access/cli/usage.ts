import { parseTimeOrIndex, plain, type Verb } from '../../../kernel/cli/index.js'
import { systemClock, type FromSchema } from '../../../kernel/index.js'
import { COUNTS, type usageRoute } from '../usage/declarations.js'

type Usage = FromSchema<typeof usageRoute.reply>

const HEADERS = ['REQUESTS', 'FAILED', 'PROMPT', 'CACHED', 'OUTPUT', 'SOUND IN', 'SOUND OUT']

export default {
  async run (ctx, _, { by = 'key', since, csv }) {
    const { client, err, fail, out } = ctx
    const from = since === undefined ? '' : parseTimeOrIndex(String(since), systemClock.now())
    if (from === null || /^\d+$/.test(from)) {
      throw fail(2, `--since ${plain(String(since))}: expected a duration such as 7d, or a date such as ` +
        '2027-01-31')
    }
    const query = new URLSearchParams({
      by: String(by), ...from === '' ? {} : { since: from.slice(0, 10) }
    })
    const usage = await client.json<Usage>(`/v1/usage?${query.toString()}`)
    if (out.json) return out.value(usage)
    const rows = [...usage.rows, { key: 'total', label: null, ...usage.total }]
    if (csv === true) {
      out.line([usage.by, 'label', ...COUNTS].join(','))
      for (const row of rows) {
        out.line([row.key, row.label ?? '', ...COUNTS.map((name) => row[name])].map(quote).join(','))
      }
    } else {
      out.table([usage.by.toUpperCase(), ...HEADERS], rows.map((row) =>
        [plain(row.label ?? row.key), ...COUNTS.map((name) => show(name, row[name]))]))
    }
    for (const { name, message } of usage.not_asked) err.line(`${plain(name)} ${plain(message)}`)
  }
} satisfies Verb

const show = (name: string, value: number): string =>
  name.endsWith('_seconds') ? `${value.toFixed(1)} s` : String(value)

/** A value of a CSV row (RFC 4180). */
const quote = (value: string | number): string =>
  /[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value)
