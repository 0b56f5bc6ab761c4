import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { definePlugin, TrafficService } from '../index.js'
import { startPlugin } from '../testing/index.js'

const plugin = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.',
  routes: {
    fails: { method: 'GET', url: '/fails', authority: 'read', summary: 'Fails.' },
    streams: {
      method: 'POST', url: '/streams', authority: 'invoke', summary: 'Streams.', stream: true,
      body: { type: 'object' }
    }
  }
}, () => ({
  routes: {
    fails: () => { throw new Error('no') },
    streams: async (request) => { await request.open({ contentType: 'text/plain' }).end() }
  }
}))

t.test('every answer is told with the plugin of its route', async (t) => {
  const rig = await startPlugin(t, plugin, { strict: false })
  const answers: [string | undefined, number][] = []
  const stop = rig.service(TrafficService).onAnswer((...told) => { answers.push(told) })
  const ask = async (method: string, url: string, payload?: object): Promise<number> =>
    (await rig.inject({ method, url, ...(payload === undefined ? {} : { payload }) })).statusCode
  t.equal(await ask('GET', '/healthz'), 200)
  t.equal(await ask('GET', '/fails'), 500)
  t.equal(await ask('GET', '/nowhere'), 404)
  t.equal(await ask('GET', '/fails?what=1'), 400)
  t.equal(await ask('POST', '/streams', {}), 200)
  t.same(answers, [['kernel', 200], ['probe', 500], [undefined, 404], ['probe', 400], ['probe', 200]])
  stop()
  await ask('GET', '/healthz')
  t.equal(answers.length, 5, 'until it stops listening')
})

t.test('a streamed answer that its reader leaves counts as cut off', async (t) => {
  const endless = definePlugin({
    name: 'endless', version: '1.0.0', kernel: '^1.0.0', summary: 'Never ends.',
    routes: { flow: { method: 'GET', url: '/flow', authority: 'read', summary: 'Flows.', stream: true } }
  }, () => ({
    routes: {
      flow: async (request) => {
        const stream = request.open({ contentType: 'text/plain' })
        while (!stream.closed) {
          await stream.write('x')
          await turn()
        }
      }
    }
  }))
  const rig = await startPlugin(t, endless)
  const answers: [string | undefined, number][] = []
  rig.service(TrafficService).onAnswer((...told) => { answers.push(told) })
  const leave = new AbortController()
  const answer = await fetch(`${await rig.listen()}/flow`, { signal: leave.signal })
  t.equal(answer.status, 200)
  leave.abort()
  while (answers.length === 0) await turn()
  t.same(answers, [['endless', 499]])
})
