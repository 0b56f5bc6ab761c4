import t from 'tap'
import { clockWords, whenOf } from '../reader/when.js'

/** Monday, 23 November 2026, 20:22 UTC. */
const nowMs = Date.parse('2026-11-23T20:22:00Z')
const D = '2026-11-23'
const Y = '2026-11-22'

/** Texts with the expected start, end and sometimes moment; `y` means yesterday, a lone `-` no time. */
const TIMES = `
around 14:05 | 14:00 14:10 14:05
at 14:05 | 14:00 14:10 14:05
at 14.05 | 14:00 14:10 14:05
um 14:05 | 14:00 14:10 14:05
um 14 Uhr | 13:55 14:05 14:00
14h05 | 14:00 14:10 14:05
at 2pm | 13:55 14:05 14:00
at 22:30 | y22:25 y22:35 y22:30
at 20:20 | 20:15 20:22 20:20
yesterday | y00:00 00:00 y00:00
since yesterday | y00:00 20:22
yesterday at 3pm | y14:55 y15:05 y15:00
since 14:05 | 14:05 20:22
since this morning | 05:00 20:22
this morning | 05:00 12:00
last night | y18:00 06:00
today | 00:00 20:22
in the last hour | 19:22 20:22
in the last 2 hours | 18:22 20:22
over the past 30 min | 19:52 20:22
for the last ten minutes | 20:12 20:22
5 minutes ago | 20:12 20:22 20:17
half an hour ago | 19:47 19:57 19:52
between 10:00 and 11:30 | 10:00 11:30
from 9 to 10 am | 09:00 10:00
between 9 and 10:30 | 09:00 10:30
2026-11-22T10:00:00Z | y09:55 y10:05 y10:00
just now | 20:12 20:22
recently | 14:22 20:22
tomorrow at noon | -
right now | -
may I run it | -
the second node | -
node 2 on port 52415 | -
`

const isoOf = (text: string): string =>
  text.startsWith('y') ? `${Y}T${text.slice(1)}:00.000Z` : `${D}T${text}:00.000Z`

for (const line of TIMES.trim().split('\n')) {
  t.test(line, async (t) => {
    const [text, expected] = line.split(' | ') as [string, string]
    const when = whenOf(text, { nowMs, zoneMin: 0 })
    if (expected === '-') { t.equal(when, null); return }
    const [from, to, at] = expected.split(' ').map(isoOf)
    t.match(when, { from, to, ...at === undefined ? {} : { at } })
  })
}

t.test('a clock time is that of the node', async (t) => {
  t.match(whenOf('around 14:05', { nowMs, zoneMin: 60 }), { at: `${D}T13:05:00.000Z` })
  t.match(whenOf('since yesterday', { nowMs, zoneMin: 330 }), { from: `${Y}T18:30:00.000Z` })
  t.equal(clockWords(`${D}T13:05:00.000Z`, 60), `${D} 14:05 UTC+1 (${D}T13:05:00Z)`)
  t.equal(clockWords(`${D}T13:05:00.000Z`, -210), `${D} 09:35 UTC-3:30 (${D}T13:05:00Z)`)
  t.equal(clockWords(`${D}T13:05:00.000Z`, 0), `${D}T13:05:00Z`)
})
