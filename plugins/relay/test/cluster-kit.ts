import { randomBytes } from 'node:crypto'
import { definePlugin, systemClock, type Clock } from '../../../kernel/index.js'
import { deviceKeysOf, pairDevice, saveDevice, type DeviceFile } from '../../devices/signing/device.js'
import { startPlugin, type Rig } from '../../../kernel/testing/index.js'
import capabilities from '../../capabilities/index.js'
import devices from '../../devices/index.js'
import { RelayConnection } from '../device/connection.js'
import { fetchRelays, type KnownRelays } from '../device/known.js'
import relay from '../index.js'
import { until, type Tearing } from './relay-kit.js'

/** Text that only the two ends may see. */
export const CANARY = 'canary-5a0f31'

/** Number of parts in the answer to `/large`, which is larger than the machine's socket buffers. */
export const PARTS = 1024
export const PART_BYTES = 32 * 1024

export const probe = (done: string[]) => definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Answers.',
  routes: {
    who: { method: 'GET', url: '/who', summary: 's', authority: null },
    act: {
      method: 'POST', url: '/act', summary: 's', authority: 'invoke',
      body: { type: 'object', additionalProperties: false, properties: { word: { type: 'string' } } }
    },
    operate: { method: 'POST', url: '/operate', summary: 's', authority: 'operator' },
    plugins: { method: 'POST', url: '/manage', summary: 's', authority: 'plugin:manage' },
    approve: { method: 'POST', url: '/approve', summary: 's', authority: 'approve' },
    large: { method: 'GET', url: '/large', summary: 's', authority: 'read', stream: true },
    follow: { method: 'GET', url: '/follow', summary: 's', authority: 'read', stream: true }
  }
}, () => ({
  routes: {
    who: ({ caller: { id, mode, authorities } }) => ({ id, mode, authorities: [...authorities] }),
    act: ({ body: { word = '' } }) => {
      done.push(word)
      return { word: `${CANARY} ${word}` }
    },
    operate: () => { done.push('operate') },
    plugins: () => { done.push('manage') },
    approve: () => { done.push('approve') },
    large: async (request) => {
      const stream = request.open({ contentType: 'application/octet-stream' })
      for (let i = 0; i < PARTS && !stream.closed; i++) {
        await stream.write(Buffer.alloc(PART_BYTES, i % 251))
        done.push('part')
      }
    },
    follow: async (request) => {
      const stream = request.open({ contentType: 'text/event-stream' })
      await stream.write(`data: ${CANARY}\n\n`)
      await new Promise((resolve) => { request.signal.addEventListener('abort', resolve, { once: true }) })
    }
  }
}))

/** A node at a relay, on the real kernel with the real plugins; `done` lists the calls that it executed. */
export async function nodeAt (t: Tearing, url: string, clock: Clock = systemClock) {
  const done: string[] = []
  const rig = await startPlugin(t, relay, {
    plugins: [capabilities, devices, probe(done)], settings: { relay: { url } }, clock
  })
  await rig.listen()
  const view = async () => (await rig.inject({ url: '/v1/relay' })).json() as Record<string, unknown>
  return { rig, done, view }
}

interface Seen { attempt: string, digits: string }

/** Pairs a device with a node; `choice` is the body of `POST /v1/devices/pairing`. */
export async function paired (rig: Rig, choice: object = {}): Promise<DeviceFile> {
  const say = async <T>(path: string, body?: object): Promise<T> => {
    const how = body === undefined ? {} : { method: 'POST', payload: body }
    const answer = await rig.inject({ url: path, ...how })
    if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.body}`)
    return answer.json() as T
  }
  await say('/v1/devices/pairing', choice)
  let confirmed: Promise<unknown> | undefined
  const made = await pairDevice({
    ask: say, url: 'http://127.0.0.1', name: 'phone', compare: async () => true,
    pause: async () => {
      // Yields to timers and sockets, for which injected requests do not wait.
      await new Promise((resolve) => { setImmediate(resolve) })
      const { device } = await say<{ device: Seen | null }>('/v1/devices/pairing')
      if (device === null) return
      const { attempt, digits } = device
      // This request is answered only after the device has asked for the outcome.
      confirmed ??= say('/v1/devices/pairing/confirm', { attempt, digits })
    }
  })
  await confirmed
  return made
}

export async function knownFrom (rig: Rig, home: string, device: DeviceFile): Promise<KnownRelays> {
  saveDevice(home, device)
  return await fetchRelays(home, device, async (path) => (await rig.inject({ url: path })).json() as never,
    { proven: false })
}

export function lineOf (t: Tearing, device: DeviceFile, known: KnownRelays,
  clock: Clock = systemClock): RelayConnection {
  const line = new RelayConnection({
    keys: deviceKeysOf(device), clock, random: randomBytes, known: () => known
  })
  t.teardown(() => { line.close() })
  return line
}

export async function connected (view: () => Promise<Record<string, unknown>>): Promise<void> {
  let there = false
  await until(() => {
    void view().then(({ connected }) => { there = connected === true })
    return there
  })
}
