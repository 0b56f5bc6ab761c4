import t, { type Test } from 'tap'
import { definePlugin } from '../../../kernel/index.js'
import capabilities from '../../capabilities/index.js'
import { syncDevice } from '../device-sync.js'
import devices from '../index.js'
import { deviceFileOf, newDeviceKeys, saveDevice, savedDevices } from '../signing/device.js'
import { cli, sendError, standIn } from '../../../kernel/test/cli-helpers.js'
import type { ServerResponse } from 'node:http'
import type { DeviceNews } from '../service.js'
import type { Verb } from '../../../kernel/cli/index.js'

const json = (response: ServerResponse, value: unknown): void => { response.end(JSON.stringify(value)) }

/** A plugin that requests `/v1/news` when a device syncs, and counts its runs and failures. */
function pluginWith (counted: { runs: number, failed: number }) {
  const news: DeviceNews = {
    async run ({ ask, device }) {
      counted.runs++
      await ask('/v1/news').catch((error: unknown) => {
        counted.failed++
        throw error
      })
      return [`news for ${device.name}`]
    }
  }
  const paired: Verb = {
    async run (ctx, [url]) { for (const line of await syncDevice(ctx, url!)) ctx.out.line(line) }
  }
  return definePlugin({
    name: 'press', version: '1.0.0', kernel: '^1.0.0', summary: 'Learns.',
    deviceNews: { press: { summary: 's', load: async () => ({ default: news }) } },
    verbs: { made: { summary: 's', args: '<url>', load: async () => ({ default: paired }) } }
  }, () => ({}))
}

/** The home of a device that is paired with a stub node, and functions that run commands in it. */
async function deviceAt (t: Test, news: (response: ServerResponse) => void) {
  const counted = { runs: 0, failed: 0 }
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { json(response, { capabilities: [], revisions: {} }) },
    'GET /v1/news': (response) => { news(response) }
  })
  const home = t.testdir({})
  const keys = newDeviceKeys()
  const grant = { deviceId: keys.deviceId, name: 'phone', created: '2026-01-01T00:00:00.000Z' }
  const seen = { [node.url]: { nodeId: 'one', aheadMs: 0 } }
  saveDevice(home, deviceFileOf(keys, { grant: grant as never, nodes: [], seen }))
  const run = async (...words: string[]) =>
    await cli([...words, '--home', home], { plugins: [capabilities, devices, pluginWith(counted)] })
  const met = async (...words: string[]): Promise<number> => {
    const before = counted.runs
    const ran = await run('capabilities', '--url', node.url, ...words)
    t.equal(ran.status, 0, ran.err)
    return counted.runs - before
  }
  const change = (more: object): void => { saveDevice(home, { ...savedDevices(home)[0]!, ...more }) }
  return { node, run, met, change, counted, home }
}

t.test('a device learns once a day, and when the node has started anew', async (t) => {
  const { node, met, change, counted } = await deviceAt(t, (response) => { json(response, {}) })
  t.equal(await met('--token', 'svc_app_x'), 0, 'with a token it is no device')
  t.same([await met(), await met()], [1, 0])
  change({ seen: { [node.url]: { nodeId: 'two', aheadMs: 0 } } })
  t.same([await met(), await met()], [1, 0], 'another start')
  const ago = (ms: number): object =>
    ({ news: { [node.url]: { nodeId: 'two', at: new Date(Date.now() - ms).toISOString() } } })
  change(ago(23 * 3_600_000))
  t.equal(await met(), 0)
  change(ago(25 * 3_600_000))
  t.equal(await met(), 1, 'another day')
  change(ago(-3_600_000))
  t.equal(await met(), 1, 'a clock that was set back')
  t.equal(counted.failed, 0)
})

t.test('who has just paired is told, and a node that does not know of it is left in peace', async (t) => {
  const { node, run, met, home } = await deviceAt(t, (response) => { json(response, {}) })
  t.equal((await run('made', node.url)).out, 'news for phone\n')
  t.equal(await met(), 0, 'that was the time of today')
  t.equal((await run('made', 'http://127.0.0.1:9')).out, '', 'no device there')
  t.equal(savedDevices(home).length, 1)
  const lacks = await deviceAt(t, (response) => { sendError(response, 404, 'not_found') })
  t.same([await lacks.met(), await lacks.met(), lacks.counted.failed], [1, 0, 1])
  const gone = await deviceAt(t, (response) => { response.destroy() })
  t.same([await gone.met(), await gone.met()], [1, 1], 'one that is gone is asked again')
})
