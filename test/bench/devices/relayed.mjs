/** A node connected to a relay, and a remote device that is paired with the node: five processes in all. */
import { join } from 'node:path'
import { here, source } from '../lib/paths.mjs'
import { newHome, processes, removeHome, startNode } from '../lib/node.mjs'
import { startWorker } from '../lib/worker.mjs'
import { ask, operatorOf, pairDevices, saveDevice, signerOf, startVerb } from './kit.mjs'
import { until } from '../observe/paced.mjs'

const { fetchRelays } = await source('plugins/relay/device/known.ts')
const MODULE = join(here, 'workers', 'stream-plugin.mjs')

/** Runs `work` with the node, relay and device, and always stops them. */
export async function withRelay (work) {
  const undo = []
  const ending = (one) => { undo.unshift(async () => { await one.stop() }); return one }
  try {
    const relay = ending(await startVerb('relay', '--port', '0'))
    const node = ending(await startNode({ yaml: JSON.stringify({
      relay: { url: relay.url }, plugins: { placement: { autoplace: [] }, streams: { module: MODULE } }
    }) }))
    await until('the node is at its relay', async () => (await node.json('/v1/relay')).connected)
    const [device] = await pairDevices(node, 1)
    const home = newHome()
    undo.push(() => { removeHome(home) })
    saveDevice(home, device)
    const signer = signerOf(device)
    await fetchRelays(home, device, async (path) =>
      await ask(node, 'GET', path, undefined, await signer.authorization('GET', path, undefined)),
    { proven: false })
    const serving = ending(await startVerb('device', 'serve', '--home', home, '--port', '0'))
    const client = ending(await startWorker('listeners'))
    const headers = { authorization: `Bearer ${operatorOf(node)}` }
    const { pid } = (await processes(node)).kernel
    return await work({
      relay, node, nodePid: pid, serving, client,
      direct: { url: node.url, headers }, relayed: { url: serving.url }
    })
  } finally {
    for (const fn of undo) await fn()
  }
}
