import t from 'tap'
import { newKeyPair } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { deviceCommands, entriesToPublish } from '../cluster.js'
import { isSignedByNode, hasExpired, mergeEntries, MOST_BYTES, type Entry } from '../grants.js'
import { at, DAY_MS, grantOf, memorySection, node, refuse, revocationOf, text } from './grants-kit.js'
import type { Grant } from '../signing/protocol.js'

t.test('any field of a grant that is changed makes it nobody\'s', (t) => {
  const grant = grantOf(manualClock())
  t.ok(isSignedByNode(grant))
  const others: Partial<Grant>[] = [
    { name: 'x' }, { authorities: ['read', 'operator'] }, { authorities: [], viaRelay: ['read'] },
    { expires: at(0) }, { maxOfflineSeconds: 61 }, { by: 'x' }, { agreementKey: text(node.publicKey) },
    { key: text(node.publicKey) }, { deviceId: 'a'.repeat(52) }, { nodeKey: grant.key },
    { signature: 'A'.repeat(86) }, { created: at(1) }, { nodeAgreementKey: text(node.publicKey) }
  ]
  for (const other of others) t.notOk(isSignedByNode({ ...grant, ...other }), Object.keys(other).join())
  t.end()
})

t.test('what two parts know is put together in any order: revoked wins, then the newer grant', (t) => {
  const clock = manualClock()
  const key = newKeyPair('Ed25519').publicKey
  const older = grantOf(clock, 1, key)
  const newer = { ...older, created: at(clock.now() + 1) }
  const entries: Entry[] = [
    { grant: older, revoked: null }, { grant: newer, revoked: null },
    { grant: null, revoked: revocationOf(older, clock.now() + 5) },
    { grant: null, revoked: revocationOf(older, clock.now() + 2) }
  ]
  const together = (some: readonly Entry[]): Entry =>
    some.reduce<Entry | undefined>((known, one) => mergeEntries(known, one), undefined)!
  for (const order of [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]]) {
    t.same(together(order.map((i) => entries[i]!)), entries[3])
    t.same(together(order.filter((i) => i < 2).map((i) => entries[i]!)), entries[1])
  }
  const known = new Map([[older.deviceId, entries[0]!]])
  t.same(entriesToPublish([entries[0]!], (id) => known.get(id)), [])
  t.same(entriesToPublish([entries[2]!], (id) => known.get(id)), [[entries[2]]])
  const many = Array.from({ length: 120 }, () => entries[0]!)
  t.same(entriesToPublish(many, () => undefined).map((part) => part.length), [50, 50, 20])
  t.notOk(hasExpired(entries[0]!, clock.now() + 2 * DAY_MS))
  t.ok(hasExpired(entries[2]!, clock.now() + 3 * DAY_MS))
  t.end()
})

t.test('there are bounds, and a revoked key stays revoked', (t) => {
  const clock = manualClock()
  const section = memorySection()
  const commands = deviceCommands({ section, clock, error: refuse })
  const first = grantOf(clock)
  commands.grantDevice({ grant: first })
  const taken = (): number => [...section.entries()].map(({ value }) => JSON.stringify(value)).join('').length
  for (let i = 1; taken() < MOST_BYTES; i++) {
    section.put(String(i), { grant: { ...first, deviceId: String(i) }, revoked: null })
  }
  const size = section.size
  t.throws(() => commands.grantDevice({ grant: grantOf(clock) }), { message: 'too_many_devices' })
  commands.keepDevices({ entries: [{ grant: grantOf(clock), revoked: null }] })
  t.equal(section.size, size, 'what others tell has no more room than that')
  commands.revokeDevice({ revoked: revocationOf(first, clock.now()) })
  t.throws(() => commands.grantDevice({ grant: first }), { message: 'device_ended' })
  const renamed = { ...grantOf(clock), name: 'x' }
  t.throws(() => commands.grantDevice({ grant: renamed }), { message: 'device_ended' })
  t.throws(() => commands.grantDevice({ grant: grantOf(clock, 401) }), { message: 'device_ended' })
  const forged = { ...grantOf(clock), authorities: ['operator'] }
  commands.keepDevices({ entries: [{ grant: forged, revoked: null }, { grant: first, revoked: null }] })
  t.equal(section.get(forged.deviceId), undefined)
  t.not(section.get(first.deviceId)?.revoked, null)
  t.end()
})
