import t from 'tap'
import { canonicalJson, own, withHash, type AuditRecord } from '../chain/record.js'
import { linesOf, records, verified } from './kit.js'
import type { Fault, Head } from '../chain/verify.js'

const whole = records(9)

/** The chain rewritten from a record on, as an attacker with write access could do. */
function rewritten (from: number, change: (record: AuditRecord) => Partial<AuditRecord>): AuditRecord[] {
  const made = whole.slice(0, from - 1)
  for (const old of whole.slice(from - 1)) {
    const { hash: _, ...rest } = { ...old, ...old.seq === from ? change(old) : {} }
    made.push(withHash({ ...rest, prev: made.at(-1)?.hash ?? old.prev }))
  }
  return made
}

t.test('the first record that is not as it was', async (t) => {
  const check = (what: string, lines: string[], expected: [number, Fault['kind']] | null): void => {
    const { fault } = verified(lines)
    t.same(fault === null ? null : [fault.seq, fault.kind], expected, what)
    if (fault !== null) t.match(fault.message, new RegExp(`^Record ${fault.seq} .*\\.$`))
  }
  const lines = linesOf(whole)
  const without = (...seqs: number[]): string[] => lines.filter((_, i) => !seqs.includes(i + 1))
  const changed = (seq: number, more: Partial<AuditRecord>): string[] =>
    lines.with(seq - 1, canonicalJson({ ...whole[seq - 1]!, ...more }))
  check('nothing', lines, null)
  check('no record at all', [], null)
  check('who', changed(4, { who: 'local' }), [4, 'altered'])
  check('detail', changed(9, { detail: { a: 1 } }), [9, 'altered'])
  check('the last one, with its hash', changed(9, { hash: 'f'.repeat(64) }), [9, 'altered'])
  const forged = rewritten(4, () => ({ who: 'x' }))[3]!
  check('one with its own hash made anew', lines.with(3, canonicalJson(forged)), [4, 'altered'])
  check('nonsense', lines.with(4, 'nonsense'), [5, 'altered'])
  check('one removed', without(5), [5, 'removed'])
  check('several removed', without(3, 4, 5), [3, 'removed'])
  check('the first removed', without(1), [1, 'removed'])
  check('two exchanged', lines.with(4, lines[5]!).with(5, lines[4]!), [5, 'reordered'])
  check('one moved to the end', [...without(2), lines[1]!], [2, 'reordered'])
  check('one twice', [...lines.slice(0, 4), ...lines.slice(3)], [4, 'reordered'])
  check('the end removed, which the chain alone cannot show', lines.slice(0, 6), null)
  check('made anew, likewise', linesOf(rewritten(3, () => ({ who: 'x' }))), null)
  check('two faults', changed(3, { who: 'x' }).filter((_, i) => i !== 6), [3, 'altered'])
})

t.test('a chain whose beginning was dropped says so', async (t) => {
  const dropped = ({ seq, hash }: Head): Partial<AuditRecord> =>
    ({ what: own.retention, detail: { dropped: { seq, hash } } })
  const says = (head: Head): string[] => linesOf(rewritten(8, () => dropped(head)))
  const check = (what: string, lines: string[], expected: [number, Fault['kind']] | null): void => {
    const { fault } = verified(lines)
    t.same(fault === null ? null : [fault.seq, fault.kind], expected, what)
  }
  const three = { seq: 3, hash: whole[2]!.hash }
  check('dropped as it says', says(three).slice(3), null)
  check('it says so and has not done it yet', says(three), null)
  check('it says so and has done a part of it', says(three).slice(2), null)
  check('more than it says', says(three).slice(4), [4, 'removed'])
  check('another one than it says', says({ seq: 3, hash: 'f'.repeat(64) }).slice(3), [4, 'altered'])
})
