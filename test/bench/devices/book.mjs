// A cluster with nearly the maximum number of devices, half of them revoked: how long a start and the lookup
// of a device take, and how soon the other nodes show a revocation. Each node is a separate process.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { join } from 'node:path'
import { request } from '../lib/node.mjs'
import { source } from '../lib/paths.mjs'
import { figure } from '../lib/report.mjs'
import { median, quantile } from '../lib/stats.mjs'

process.env.SVC_TEST_FULL = '1'
const { startCluster } = await source('test/node/cluster-kit.ts')
const { until } = await source('test/node/kit.ts')
const { deviceIdOf, GRANT, grantBytes } = await source('plugins/devices/signing/protocol.ts')
const { purposeBytes } = await source('kernel/net/encoding.ts')
const { newKeyPair, sha256, signed } = await source('kernel/net/keys.ts')

const EVER = 400
const LIVE = 200
const DAY_MS = 86_400_000
const QUIET = { plugins: { placement: { autoplace: [] } } }

const text = (bytes) => Buffer.from(bytes).toString('base64url')
const at = (ms) => new Date(ms).toISOString()

/** Device record entries, signed by the node of this home; those without a grant are revoked devices. */
function entriesOf (home) {
  const privateKey = createPrivateKey(readFileSync(join(home, 'node.key')))
  const nodeKey = createPublicKey(privateKey).export({ format: 'jwk' }).x
  const now = Date.now()
  return Array.from({ length: EVER }, (_, n) => {
    const key = newKeyPair('Ed25519').publicKey
    const [deviceId, name, expires] = [deviceIdOf(sha256(key)), `device ${n}`, at(now + 90 * DAY_MS)]
    if (n >= LIVE) return { grant: null, revoked: { deviceId, name, expires, at: at(now), by: 'operator' } }
    const grant = {
      deviceId, name, key: text(key), agreementKey: text(key), authorities: ['read', 'invoke'],
      viaRelay: ['read'], created: at(now), expires, maxOfflineSeconds: 86_400, by: 'operator', nodeKey,
      nodeAgreementKey: text(key)
    }
    const signature = text(signed(privateKey, purposeBytes(GRANT, grantBytes(grant))))
    return { grant: { ...grant, signature }, revoked: null }
  })
}

const agent = new http.Agent({ keepAlive: true })

/** Sends a request as the operator; returns the answer and its duration. Throws if the node refuses. */
async function ask ({ node }, path, method = 'GET') {
  const headers = { authorization: `Bearer ${node.token}` }
  const { body, status, totalMs } = await request({ agent, url: node.url + path, method, headers })
  if (status !== 200) throw new Error(`${method} ${path}: ${status} ${body}`)
  return { ms: totalMs, json: JSON.parse(body) }
}

/** Restarts a member `rounds` times; returns the ms until it is ready. */
async function starts (member, rounds) {
  const times = []
  for (let round = 0; round < rounds; round++) {
    await member.kill()
    const startedAt = performance.now()
    await member.start()
    times.push(performance.now() - startedAt)
  }
  return times
}

const bytesOf = (folder) => readdirSync(folder, { recursive: true })
  .map((name) => statSync(join(folder, name))).filter((file) => file.isFile())
  .reduce((sum, { size }) => sum + size, 0)

/** Milliseconds from the revocation request until each other node shows the revocation. */
async function revocation (here, others, id) {
  const startedAt = performance.now()
  const seen = others.map(async (other) => {
    while ((await ask(other, `/v1/devices/${id}`)).json.state !== 'revoked') { /* polls without a pause */ }
    return performance.now() - startedAt
  })
  await ask(here, `/v1/devices/${id}`, 'DELETE')
  const answered = performance.now() - startedAt
  return { answered, seen: Math.max(...await Promise.all(seen)) }
}

export default {
  title: `${EVER} devices, ${LIVE} of which count, on three nodes`,
  async run ({ short }) {
    const undo = []
    try {
      const cluster = await startCluster({ teardown: (fn) => { undo.unshift(fn) } },
        { nodes: 3, config: QUIET })
      await cluster.agreed({ live: 3 })
      const [first, ...others] = cluster.members
      const [rounds, tries] = short ? [3, 20] : [7, 60]
      const state = join(first.home, 'state')
      const emptyBytes = bytesOf(state)
      const before = await starts(first, rounds)
      const entries = entriesOf(first.home)
      await first.kill()
      const path = join(state, 'devices.json')
      writeFileSync(path, JSON.stringify({ format: 1, entries }), { mode: 0o600 })
      const toldAt = performance.now()
      await first.start()
      const last = entries.at(-1).revoked.deviceId
      await until('every node to know all devices', async () => await Promise.all(cluster.members
        .map((one) => ask(one, `/v1/devices/${last}`))).catch(() => false), { seconds: 120 })
      const told = performance.now() - toldAt
      const after = await starts(first, rounds)
      await cluster.agreed({ live: 3 })
      const ids = entries.slice(0, LIVE).map(({ grant }) => grant.deviceId)
      const lookups = []
      for (const id of ids.slice(0, 200)) lookups.push((await ask(first, `/v1/devices/${id}`)).ms)
      const lists = []
      for (let n = 0; n < 5; n++) lists.push((await ask(first, '/v1/devices')).ms)
      const revoked = []
      for (const [n, id] of ids.slice(0, tries).entries()) {
        const here = cluster.members[n % 3]
        revoked.push(await revocation(here, cluster.members.filter((one) => one !== here), id))
      }
      const seen = revoked.map((one) => one.seen)
      const row = (name, times) => [name, figure(median(times)), figure(quantile(times, 0.99)),
        figure(Math.max(...times))]
      return {
        columns: ['', 'p50, ms', 'p99', 'max'],
        rows: [
          row('start of a node until it is ready, without devices', before),
          row('start of a node until it is ready, with them', after),
          row('GET /v1/devices/ID', lookups), row('GET /v1/devices', lists),
          row('DELETE /v1/devices/ID, answered', revoked.map((one) => one.answered)),
          row('until both others show it as revoked', seen)
        ],
        targets: [],
        notes: [
          `one comes with the book, the cluster has none: all know it after ${figure(told / 1000, 's')}`,
          `as JSON in the document: ${figure(JSON.stringify(entries).length / 1e6, 'MB')}; devices.json: ` +
            `${figure(statSync(path).size / 1e6, 'MB')}; the folder state of the node: ` +
            `${figure(bytesOf(state) / 1e6, 'MB')}, before ${figure(emptyBytes / 1e6, 'MB')}`,
          `starts: ${rounds} each, after kill -9; lookups one after the other; ${tries} revocations, each ` +
            'at another node than the one before, all nodes on this machine'
        ],
        data: { before, after, lookups, lists, revoked, told }
      }
    } finally {
      agent.destroy()
      for (const fn of undo) await fn()
    }
  }
}
