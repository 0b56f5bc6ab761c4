/** Paired devices and long-running svc processes for the benchmarks. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { dist, source } from '../lib/paths.mjs'
import { request } from '../lib/node.mjs'

const { pairDevice, ...device } = await source('plugins/devices/signing/device.ts')
export const { deviceKeysOf, saveDevice } = device
export const { RequestSigner } = await source('plugins/devices/signing/signer.ts')

export const operatorOf = ({ home }) => readFileSync(join(home, 'operator.token'), 'utf8').trim()

/** Sends a request with the operator's token or another Authorization header. Throws if the node refuses. */
export async function ask (node, method, path, body, authorization = `Bearer ${operatorOf(node)}`) {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const headers = {
    authorization,
    ...text === undefined ? {} : {
      'content-type': 'application/json', 'content-length': Buffer.byteLength(text)
    }
  }
  const answer = await request({ agent: node.agent, url: node.url + path, method, headers, body: text })
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`)
  return JSON.parse(answer.body)
}

/** Pairs `count` devices with a node, playing both the owner and the operator; returns the device files. */
export async function pairDevices (node, count, choice = {}) {
  const devices = []
  for (let n = 0; n < count; n++) {
    await ask(node, 'POST', '/v1/devices/pairing', choice)
    let shown
    devices.push(await pairDevice({
      url: node.url, name: `device ${n}`,
      ask: async (path, body) => await ask(node, body === undefined ? 'GET' : 'POST', path, body),
      show: (digits) => { shown = digits },
      pause: async () => {
        const { device } = await ask(node, 'GET', '/v1/devices/pairing')
        if (device === null) return
        await ask(node, 'POST', '/v1/devices/pairing/confirm', { attempt: device.attempt, digits: shown })
      }
    }))
  }
  return devices
}

/** Returns a signer for a device's requests to the node with which it was paired. */
export const signerOf = (device, now = Date.now) => new RequestSigner({
  keys: deviceKeysOf(device), seen: Object.values(device.seen)[0], now,
  fingerprints: new Set(device.nodes.map(({ fingerprint }) => fingerprint))
})

/** Starts a long-running `svc` verb; resolves with the JSON of the first line that it prints. */
export async function startVerb (...args) {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name !== 'NODE_OPTIONS' && !name.startsWith('SVC_'))
  )
  const child = spawn(process.execPath, [join(dist, 'kernel/cli/main.js'), ...args, '--json'],
    { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const end = () => { child.kill('SIGKILL') }
  process.once('exit', end)
  let said = ''
  child.stderr.on('data', (bytes) => { said = (said + bytes).slice(-4000) })
  let text = ''
  const first = await new Promise((resolve, reject) => {
    child.once('exit', (code) => { reject(new Error(`svc ${args[0]} ended with ${code}: ${said}`)) })
    child.stdout.on('data', (bytes) => {
      text += bytes
      if (text.includes('\n')) resolve(JSON.parse(text.slice(0, text.indexOf('\n'))))
    })
  })
  return {
    ...first,
    pid: child.pid,
    async stop () {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
      process.off('exit', end)
    }
  }
}
