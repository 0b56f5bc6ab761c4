import t from 'tap'
import { newKeyPair } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { deviceCommands } from '../cluster.js'
import { DAY_MS, grantOf, memorySection, refuse, revocationOf } from './grants-kit.js'

t.test('10,000 grants ever made, 100 devices at a time: what is kept does not grow', async (t) => {
  const clock = manualClock()
  const section = memorySection()
  const { grantDevice, revokeDevice } = deviceCommands({ section, clock, error: refuse })
  // More keys than the store has room for; creating 10,000 would take most of the test's time.
  const keys = Array.from({ length: 400 }, () => newKeyPair('Ed25519').publicKey)
  let largest = 0
  let half = 0
  for (let made = 1; made <= 10_000; made++) {
    const grant = grantOf(clock, 1, keys[made % keys.length])
    grantDevice({ grant })
    if (made % 3 === 0) revokeDevice({ revoked: revocationOf(grant, clock.now()) })
    // Makes a hundred grants per day, each valid for a day.
    await clock.advance(DAY_MS / 100)
    largest = Math.max(largest, section.size)
    if (made === 5000) half = section.bytes
  }
  t.ok(largest <= 301, `${largest} entries: those of one day and of the two after`)
  t.ok(section.bytes <= half * 1.1, `${section.bytes} bytes, ${half} half way`)
})
