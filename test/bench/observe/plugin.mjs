// The plugin that the benchmarks load into a node: models on engine.mjs, a source of durable events, and a
// view of the event log's state.
import { definePlugin } from '../../../dist/kernel/index.js'
import { EventLogService } from '../../../dist/plugins/event-log/service.js'

const TICK_MS = 5
const text = { type: 'string' }
const count = { type: 'integer', minimum: 0 }
const object = (properties) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties })

/** Message of a failed instance, as long as that of a typical event. */
const said = (n) => ({
  n, instanceId: '6d3f7c1e-5a51-4f0e-9d53-0f0e6f1b2a77', modelId: 'bench/paced-0',
  message: 'The runner did not answer within 10 s and was ended; what it served was refused.'
})

/** Creates the plugin; `models` maps model ids to card folders. */
export const pluginWith = (models) => definePlugin({
  name: 'observed',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Makes events and tokens for the benchmarks.',
  requires: ['event-log'],
  consumes: { log: EventLogService },
  engines: {
    'paced-engine': {
      summary: 'Takes its time.', module: new URL('./engine.mjs', import.meta.url).href, backends: ['cpu']
    }
  },
  models: Object.fromEntries(Object.entries(models).map(([id, folder]) => [id, { folder }])),
  events: {
    BenchHappened: {
      plane: 'durable', summary: 'Something happened.',
      payload: object({ n: count, instanceId: text, modelId: text, message: text })
    }
  },
  routes: {
    pace: {
      method: 'PUT', url: '/v1/bench/events', authority: 'operator',
      summary: 'Makes so many events a second.',
      body: object({ perSecond: count }), reply: object({ perSecond: count })
    },
    log: { method: 'GET', url: '/v1/bench/log', authority: 'read', summary: 'How the event log is.' }
  }
}, (ctx) => {
  let perSecond = 0
  let made = 0
  let due = 0
  let last = ctx.clock.mono()
  ctx.every('events', TICK_MS, () => {
    const now = ctx.clock.mono()
    due += perSecond * (now - last) / 1000
    last = now
    for (; due >= 1; due--) ctx.emit('BenchHappened', said(made++))
  })
  return {
    routes: {
      pace: ({ body }) => {
        perSecond = body.perSecond
        due = 0
        return { perSecond }
      },
      log: () => {
        const { lastIdx, waiting } = ctx.deps.log
        return { ...ctx.deps.log.status(), lastIdx, waiting, made }
      }
    }
  }
})
