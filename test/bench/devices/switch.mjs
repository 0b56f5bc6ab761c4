// Time to switch a plugin on or off in a running node, until its route answers accordingly.
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { here } from '../lib/paths.mjs'
import { request, startNode } from '../lib/node.mjs'
import { figure } from '../lib/report.mjs'
import { median, pluck, quantile } from '../lib/stats.mjs'
import { operatorOf } from './kit.mjs'

const MODULE = join(here, 'workers', 'stream-plugin.mjs')
const ROUTE = '/v1/bench/bytes?mib=0'

/** Switches the plugin; returns the ms until the response, and until its route appears or disappears. */
async function switched (node, headers, enabled) {
  const body = JSON.stringify({ enabled })
  const startedAt = performance.now()
  const since = () => performance.now() - startedAt
  const seen = (async () => {
    for (;;) {
      const { body: said, status } = await request({ agent: node.agent, url: node.url + ROUTE, headers })
      if (status === (enabled ? 200 : 404)) {
        if (!enabled && !said.includes('plugin_disabled')) throw new Error(`${ROUTE}: ${said}`)
        return since()
      }
    }
  })()
  const answer = await request({
    agent: node.agent, url: `${node.url}/v1/plugins/streams`, method: 'POST', body,
    headers: { ...headers, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  })
  const answered = since()
  if (answer.status !== 200) throw new Error(`enabled: ${enabled}: ${answer.status} ${answer.body}`)
  return { answered, seen: await seen }
}

export default {
  title: 'A plugin switched while the node runs',
  async run ({ short }) {
    const yaml = JSON.stringify({ plugins: { placement: { autoplace: [] }, streams: { module: MODULE } } })
    const node = await startNode({ yaml })
    try {
      const headers = { authorization: `Bearer ${operatorOf(node)}` }
      const rounds = short ? 20 : 100
      const results = { off: [], on: [] }
      await switched(node, headers, false)
      await switched(node, headers, true)
      for (let round = 0; round < rounds; round++) {
        results.off.push(await switched(node, headers, false))
        results.on.push(await switched(node, headers, true))
      }
      const row = (name, times) => [
        name, figure(median(times)), figure(quantile(times, 0.99)), figure(Math.max(...times))
      ]
      const worst = (kind) => Math.max(...pluck(results[kind], 'seen'))
      return {
        columns: ['', 'p50, ms', 'p99', 'max'],
        rows: [
          row('on: until its route answers', pluck(results.on, 'seen')),
          row('on: until the request is answered', pluck(results.on, 'answered')),
          row('off: until its route is 404 plugin_disabled', pluck(results.off, 'seen')),
          row('off: until the request is answered', pluck(results.off, 'answered'))
        ],
        targets: [
          { name: 'on, the longest', value: worst('on'), limit: 1000, unit: 'ms' },
          { name: 'off, the longest', value: worst('off'), limit: 1000, unit: 'ms' }
        ],
        notes: [
          `${rounds} times each, by POST /v1/plugins/NAME as \`svc plugin\` does it; its route is asked ` +
            'for again and again meanwhile'
        ],
        data: results
      }
    } finally {
      await node.stop()
    }
  }
}
