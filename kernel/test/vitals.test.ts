import t from 'tap'
import { definePlugin } from '../api/plugin.js'
import { VitalsService, type MachineStats, type VitalsSource } from '../api/vitals.js'
import { createVitals } from '../state/vitals.js'
import { startPlugin, type Rig } from '../testing/index.js'

const inBytes = (n: number): { inBytes: number } => ({ inBytes: n })
const load = { gpuUsage: null, temp: 40, sysPower: null, accelerator: null, accelerators: [] }
const reading = (free: number): MachineStats => ({
  memory: {
    ramTotal: inBytes(100), ramAvailable: inBytes(free), swapTotal: inBytes(0), swapAvailable: inBytes(0)
  },
  system: { ...load, pcpuUsage: 0.5 },
  disk: { total: inBytes(9), available: inBytes(4) },
  network: { interfaces: [] }
})
const source = (free: number): VitalsSource => ({ vitals: async () => reading(free), load: () => load })

t.test('of two sources the later one counts, and withdrawing the other changes nothing', async (t) => {
  const vitals = createVitals()
  const unknown = { memory: null, system: null, disk: null, network: null }
  t.same([await vitals.vitals(), vitals.load()], [unknown, null])
  const first = vitals.offer(source(1))
  t.same(await vitals.vitals(), reading(1))
  const second = vitals.offer(source(2))
  first()
  t.same([await vitals.vitals(), vitals.load()], [reading(2), load])
  second()
  t.same([await vitals.vitals(), vitals.load()], [unknown, null])
})

t.test('while no plugin reads the machine, Node tells of it', async (t) => {
  const vitals = createVitals(import.meta.dirname)
  const { memory, system, disk, network } = await vitals.vitals()
  t.ok(memory!.ramTotal.inBytes >= memory!.ramAvailable.inBytes && memory!.ramAvailable.inBytes > 0)
  t.ok(disk!.total.inBytes >= disk!.available.inBytes && disk!.total.inBytes > 0)
  t.match(system, { pcpuUsage: null, accelerators: [] })
  t.ok(network!.interfaces.length > 0)
  vitals.offer(source(1))
  t.same(await vitals.vitals(), reading(1))
  const gone = await createVitals('/no/such/home').vitals()
  t.match(gone, { disk: null, memory: { ramTotal: memory!.ramTotal } }, 'a home that is away')
})

async function readings (rig: Rig): Promise<unknown[]> {
  const state = (await rig.inject({ url: '/state' })).json() as Record<string, Record<string, unknown>>
  return ['nodeMemory', 'nodeSystem', 'nodeDisk', 'nodeNetwork'].map((key) => Object.values(state[key]!)[0])
}

const manifest = { name: 'reads', version: '1.0.0', kernel: '^1.0.0', summary: 'Reads.' } as const

t.test('a plugin offers the readings of /state', async (t) => {
  const plugin = definePlugin({ ...manifest, consumes: { vitals: VitalsService } }, (ctx) => {
    ctx.effect('readings', ctx.deps.vitals.offer(source(50)))
    return {}
  })
  const { memory, system, disk, network } = reading(50)
  t.same(await readings(await startPlugin(t, plugin)), [memory, system, disk, network])
})

t.test('without such a plugin a node runs no models', async (t) => {
  const rig = await startPlugin(t, definePlugin(manifest, () => ({})))
  const { nodeResources } = (await rig.inject({ url: '/state' })).json() as Record<string, object>
  t.match(Object.values(nodeResources!), [{ backends: [], participation: 'management' }])
  t.same(await readings(rig), [undefined, undefined, undefined, undefined])
})
