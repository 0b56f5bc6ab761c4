import t, { type Test } from 'tap'
import { ask, call, open, refusal, readBody } from './http.js'
import { does, TTS } from './engine.js'
import {
  eventsOf, instancesCluster, openFrames, placeOn, tasksOn, view
} from './instances-kit.js'
import { until } from './kit.js'
import type { IncomingMessage } from 'node:http'
import type { Cluster, Member } from './cluster-kit.js'

/** Opens a stream that one node forwards to another; resolves when the stream runs there. */
async function passedOn (from: Member, to: Member): Promise<IncomingMessage> {
  const response = await open(from.node, '/v1/capabilities/stream', {
    headers: { accept: 'application/vnd.svc.frames' },
    body: call(from.node, TTS, does('test/ok', 'count', { bytes: 100, delayMs: 20 }),
      { target_node: to.name })
  })
  if (response.statusCode !== 200) throw new Error((await readBody(response)).toString())
  response.on('error', () => {})
  response.resume()
  return response
}

/** Ids of the tasks that run on a member, once every member lists `count` running tasks. */
async function running (cluster: Cluster, on: Member, count: number): Promise<string[]> {
  await until(`${count} tasks on ${on.name}`, async () => await tasksOn(on.node, 'test/ok') === count)
  return await until('all to list them', async () => {
    const views = await Promise.all(cluster.up().map(({ node }) => view(node)))
    const ids = views.map(({ tasks }) => Object.values(tasks).flatMap(({ Inference: task }) =>
      task?.status === 'Running' ? [task.taskId] : []).sort())
    return ids.every((some) => some.length === count && some.join() === ids[0]!.join()) && ids[0]
  })
}

/** Ids in a member's TaskFailed events, including duplicates. */
const seen = async (member: Member, key: string): Promise<string[]> =>
  (await eventsOf([member], 'TaskFailed')).map(({ [key]: id }) => String(id)).sort()

/** Waits until every node that is up has one event for each of these tasks, and checks that none has two. */
async function told (
  t: Test, cluster: Cluster, ids: readonly string[], key = 'taskId'
): Promise<void> {
  for (const member of cluster.up()) {
    await until(`${ids.length} lost tasks at ${member.name}`, async () => {
      const all = await seen(member, key)
      return ids.every((id) => all.includes(id))
    })
    const all = await seen(member, key)
    // Checks earlier tasks too, because a duplicate event may come only once the node counts as lost.
    t.equal(new Set(all).size, all.length, `at ${member.name}`)
  }
}

t.test('every lost task has exactly one event, at whichever node it entered', async (t) => {
  const cluster = await instancesCluster(t)
  const { master, others: [worker, other] } = await cluster.agreed()
  await placeOn(cluster, worker!, 'test/ok')

  await t.test('the runner dies', async (t) => {
    const streams = [await openFrames(worker!.node, 'test/ok'), await openFrames(other!.node, 'test/ok')]
    const passed = await passedOn(other!, worker!)
    const ids = await running(cluster, worker!, 3)
    process.kill(worker!.node.runners()[0]!, 'SIGKILL')
    await told(t, cluster, ids)
    for (const { leave } of streams) leave()
    passed.destroy()
  })

  await t.test('the node dies', async (t) => {
    await until('the runner to be back', async () => await openFrames(worker!.node, 'test/ok')
      .then(({ leave }) => { leave(); return true }, () => false))
    await running(cluster, worker!, 0)
    const streams = [await openFrames(worker!.node, 'test/ok'), await openFrames(other!.node, 'test/ok')]
    const passed = await passedOn(other!, worker!)
    const ids = await running(cluster, worker!, 3)
    await worker!.kill()
    await told(t, cluster, ids)
    for (const { leave } of streams) leave()
    passed.destroy()
    await worker!.start()
    await cluster.agreed()
  })

  await t.test('the node dies before it reports the task', async (t) => {
    await placeOn(cluster, worker!, 'test/c')
    const answer = ask(other!.node, '/v1/capabilities/stream', {
      headers: { accept: 'application/vnd.svc.frames' },
      body: call(other!.node, TTS, does('test/c', 'late', { delayMs: 60_000 }), { target_node: worker!.name })
    })
    await until('the task', async () => await tasksOn(worker!.node, 'test/c') === 1)
    await worker!.kill()
    const { status, headers, json } = await answer
    t.match({ status, json }, { status: 502, json: { error: { reason: 'unreachable' } } })
    t.match(refusal({ json })!.message, worker!.name)
    await told(t, cluster, [String(headers['x-svc-command-id'])], 'commandId')
    await worker!.start()
    await cluster.agreed()
  })

  await t.test('the master dies with its own tasks', async (t) => {
    await placeOn(cluster, master, 'test/b')
    const own = await openFrames(master.node, 'test/b')
    const id = await until('all to list it', async () => {
      const views = await Promise.all(cluster.up().map(({ node }) => view(node)))
      const ids = views.map(({ tasks }) => Object.values(tasks).flatMap(({ Inference: task }) =>
        task?.modelId === 'test/b' && task.status === 'Running' ? [task.taskId] : []).join())
      return ids.every((one) => one === ids[0]) && ids[0]
    })
    await master.kill()
    await cluster.agreed()
    await told(t, cluster, [id])
    own.leave()
  })
})
