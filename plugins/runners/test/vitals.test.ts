import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { systemClock, type Logger } from '../../../kernel/index.js'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { createMachine, type MachineReader } from '../machine/vitals.js'
import type os from 'node:os'
import type { MachineIo } from '../machine/io.js'

const GIB = 1024 ** 3
const netDev = (rx: number, tx: number): string => `Inter-|   Receive  |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop
  eth0: ${rx} 3 0 0 0 0 0 0 ${tx} 4 0 0 0 0 0 0
`
const cpu = (user: number, idle: number): os.CpuInfo =>
  ({ model: '', speed: 0, times: { user, nice: 0, sys: 0, idle, irq: 0 } })
const address: os.NetworkInterfaceInfo =
  { address: '10.0.0.7', family: 'IPv4', netmask: '', mac: '', internal: false, cidr: null }

/** A quiet Linux machine with 16 GiB and no GPU; running a program on it is an error. */
const files: Record<string, string> = {
  '/proc/meminfo': `MemTotal: ${16 * 1024 ** 2} kB
MemAvailable: ${8 * 1024 ** 2} kB
SwapTotal: 1024 kB
SwapFree: 512 kB
`,
  '/proc/net/dev': netDev(1000, 500)
}
const never = (): Promise<never> => Promise.reject(new Error('a program was run'))
const machine = (changed: Partial<MachineIo> = {}): MachineIo => ({
  platform: 'linux',
  read: async (path) => files[path] ?? '',
  list: async () => [],
  ask: never,
  nvidiaSmi: never,
  space: async () => ({ total: 100 * GIB, available: 40 * GIB }),
  cpus: () => [cpu(1, 1)],
  addresses: () => ({ eth0: [address] }),
  ...changed
})

interface Rig { vitals: MachineReader['vitals'], clock: ManualClock, warned: unknown[] }

function quiet (): { clock: ManualClock, warned: unknown[], log: Logger } {
  const warned: unknown[] = []
  const ignore = (): void => {}
  const warn: Logger['warn'] = (fields) => { warned.push(fields['part']) }
  return {
    clock: manualClock(), warned, log: { debug: ignore, info: ignore, warn, error: ignore, fatal: ignore }
  }
}

function rig (changed: Partial<MachineIo> = {}): Rig {
  const { clock, warned, log } = quiet()
  return { vitals: createMachine({ home: '/home', clock, log, io: machine(changed) }).vitals, clock, warned }
}

/** The reading after background work has finished. */
async function settled ({ vitals, clock }: Rig): ReturnType<Rig['vitals']> {
  await vitals()
  await clock.advance(1000)
  return await vitals()
}

t.test('a machine without a GPU: every part, and no program run', async (t) => {
  const made = rig()
  t.same(await settled(made), {
    memory: {
      ramTotal: { inBytes: 16 * GIB },
      ramAvailable: { inBytes: 8 * GIB },
      swapTotal: { inBytes: 1024 ** 2 },
      swapAvailable: { inBytes: 512 * 1024 }
    },
    system: { gpuUsage: null, temp: null, sysPower: null, pcpuUsage: 0, accelerator: null, accelerators: [] },
    disk: { total: { inBytes: 100 * GIB }, available: { inBytes: 40 * GIB } },
    network: {
      interfaces: [
        { name: 'eth0', address: '10.0.0.7', family: 'IPv4', rxBytesPerSecond: 0, txBytesPerSecond: 0 }
      ]
    }
  })
  t.same(made.warned, [])
})

t.test('while a reading is under way others get the one before', async (t) => {
  let answer = (): void => {}
  let spaces = 0
  const { vitals, clock } = rig({ space: async () => {
    if (++spaces === 2) await new Promise<void>((resolve) => { answer = resolve })
    return { total: spaces, available: 0 }
  } })
  const first = await vitals()
  await clock.advance(1000)
  const second = vitals()
  t.equal(await vitals(), first, 'nobody else waits for it')
  answer()
  t.match(await second, { disk: { total: { inBytes: 2 } } })
  t.equal(await vitals(), await second)
})

t.test('a reading is given again within a second', async (t) => {
  let spaces = 0
  const { vitals, clock } = rig({ space: async () => ({ total: ++spaces, available: 0 }) })
  t.equal(await vitals(), await vitals())
  await clock.advance(999)
  await vitals()
  t.equal(spaces, 1)
  await clock.advance(1)
  await vitals()
  t.equal(spaces, 2)
})

t.test('free memory is read anew each time, and null where nothing tells in time', async (t) => {
  const { clock, warned, log } = quiet()
  let available = 8
  const meminfo = (): string => `MemTotal: ${16 * 1024 ** 2} kB\nMemAvailable: ${available * 1024 ** 2} kB\n`
  const read = async (path: string): Promise<string> => path === '/proc/meminfo' ? meminfo() : ''
  const list = async (folder: string): Promise<string[]> => folder === '/dev' ? ['nvidia0'] : []
  let used = 400
  // Output as from nvidia-smi 580 with a data-centre GPU.
  const nvidiaSmi = async ([query]: readonly string[]): Promise<string> => query!.includes('compute-apps')
    ? '5161, 1100\n5281, 130364\n5281, 4\n' : `NVIDIA H200, 3, 1000, ${used}, 70, 30\nother, 0, 9, 0, 1, 1\n`
  const open = (io: MachineIo): MachineReader => createMachine({ home: '/home', clock, log, io })
  const free = open(machine({ read, list, nvidiaSmi }))
  t.equal(await free.freeRam(), 8 * GIB)
  available = 3
  t.equal(await free.freeRam(), 3 * GIB)
  t.strictSame(free.lastGpus().vramByPid, new Map())
  t.strictSame(await free.freeVram(), [600 * 1024 ** 2, 9 * 1024 ** 2], 'of each GPU')
  t.match(free.lastGpus(),
    { atMs: clock.mono(), vramByPid: new Map([[5161, 1100 * 1024 ** 2], [5281, 130_368 * 1024 ** 2]]) })
  used = 900
  t.match(free.load().accelerators, [{ vramUsedBytes: 400 * 1024 ** 2 }, {}])
  await free.freeVram()
  t.match(free.load().accelerators, [{ vramUsedBytes: 900 * 1024 ** 2 }, {}], 'the state shows what was read')
  t.strictSame(await open(machine()).freeVram(), [], 'no GPU')
  t.same(warned, [])
  const hangs = open(machine({ read: () => new Promise(() => {}) }))
  const late = hangs.freeRam()
  await clock.advance(1000)
  t.equal(await late, null)
  t.same(warned, ['memory'])
})

t.test('traffic and load are those since the reading before', async (t) => {
  let dev = netDev(1000, 500)
  let cpus = [cpu(0, 0)]
  const { vitals, clock } = rig({
    read: async (path) => path === '/proc/net/dev' ? dev : files[path] ?? '', cpus: () => cpus
  })
  t.match(await vitals(), { network: { interfaces: [{ rxBytesPerSecond: null, txBytesPerSecond: null }] } })
  await clock.advance(2000)
  dev = netDev(5000, 700)
  cpus = [cpu(75, 25)]
  t.match(await vitals(), {
    network: { interfaces: [{ rxBytesPerSecond: 2000, txBytesPerSecond: 100 }] }, system: { pcpuUsage: 0.75 }
  })
  await clock.advance(2000)
  dev = netDev(0, 900)
  t.match(await vitals(), { network: { interfaces: [{ rxBytesPerSecond: null, txBytesPerSecond: 100 }] } },
    'a counter that began anew says nothing')
})

t.test('a part that fails is null and is logged once; the others are there', async (t) => {
  const fails = (): never => { throw new Error('no') }
  const check = async (changed: Partial<MachineIo>, part: string, expected: object): Promise<void> => {
    const made = rig(changed)
    for (let i = 0; i < 3; i++) {
      t.match(await made.vitals(), expected, part)
      await made.clock.advance(2000)
    }
    t.same(made.warned, [part])
  }
  await check({ space: never }, 'disk', { disk: null, memory: { ramTotal: {} }, network: {} })
  await check({ space: fails }, 'disk', { disk: null, memory: { ramTotal: {} } })
  await check({ cpus: fails }, 'cpu', { system: { pcpuUsage: null }, disk: { total: {} } })
  await check({ addresses: fails }, 'network', { network: null, disk: { total: {} } })
  await check({ platform: 'darwin', ask: async (call) => call === 'mem' ? fails() : {} }, 'memory',
    { memory: null, disk: { total: {} } })
})

t.test('a volume that hangs delays a reading by a second at most, and is asked once', async (t) => {
  let asked = 0
  const { vitals, clock, warned } = rig({ space: () => { asked++; return new Promise(() => {}) } })
  for (let i = 0; i < 3; i++) {
    const reading = vitals()
    await clock.advance(0)
    await clock.advance(1000)
    t.match(await reading, { disk: null, memory: { ramTotal: {} } })
  }
  t.equal(asked, 1)
  t.same(warned, ['disk'])
})

const nvidia = async (folder: string): Promise<string[]> => folder === '/dev' ? ['null', 'nvidia0'] : []

t.test('GPUs and sensors are looked at every 30 s, in the background', async (t) => {
  let asked = 0
  const made = rig({
    list: nvidia,
    async nvidiaSmi ([query]) {
      if (query!.startsWith('--query-gpu')) asked++
      return 'NVIDIA H200, 40, 143771, 1024, 350.5, 61\n'
    }
  })
  t.match(await made.vitals(), { system: { accelerator: null } }, 'nobody waits for it')
  const expected = {
    gpuUsage: 0.4, temp: 61, sysPower: 350.5,
    accelerator: {
      vendor: 'nvidia', name: 'NVIDIA H200', utilizationRatio: 0.4, vramTotalBytes: 143771 * 1024 ** 2,
      vramUsedBytes: GIB, powerWatts: 350.5, temperatureCelsius: 61
    }
  }
  for (const ms of [1000, 28_000]) {
    await made.clock.advance(ms)
    t.match(await made.vitals(), { system: expected })
    t.equal(asked, 1)
  }
  await made.clock.advance(1000)
  await made.vitals()
  await made.clock.advance(1000)
  t.equal(asked, 2)
})

t.test('a sick GPU driver is logged once and asked ever more rarely', async (t) => {
  let asked = 0
  const made = rig({ list: nvidia, nvidiaSmi: () => { asked++; return never() } })
  const asks: number[] = []
  for (let s = 0; s < 600; s += 10) {
    const before = asked
    t.match(await made.vitals(), { system: { gpuUsage: null } })
    await made.clock.advance(10_000)
    if (asked > before) asks.push(s)
  }
  t.same(asks, [0, 60, 180, 420])
  t.match(await made.vitals(), { system: { accelerator: { name: 'NVIDIA GPU', vramTotalBytes: null } } },
    'what its files say is there')
  t.same(made.warned, ['gpu'])
})

t.test('other systems are asked through systeminformation', async (t) => {
  const calls: unknown[] = []
  const made = rig({
    platform: 'darwin',
    async ask (call, ...args) {
      calls.push([call, ...args])
      if (call === 'mem') return { total: 100, available: 60, swaptotal: 10, swapfree: 4 }
      if (call === 'graphics') return { controllers: [{ vendor: 'Apple', model: 'Apple M4', vram: null }] }
      return [{ iface: 'eth0', rx_bytes: 10, tx_bytes: 20 }, { iface: 'bad' }]
    }
  })
  t.match(await settled(made), {
    memory: {
      ramTotal: { inBytes: 100 }, ramAvailable: { inBytes: 60 }, swapTotal: { inBytes: 10 },
      swapAvailable: { inBytes: 4 }
    },
    system: { temp: null, accelerator: { vendor: 'apple', name: 'Apple M4', vramTotalBytes: null } },
    network: { interfaces: [{ name: 'eth0', rxBytesPerSecond: 0 }] }
  })
  t.same(calls.slice(0, 3).map(String).sort(), ['graphics', 'mem', 'networkStats,eth0'])
})

t.test('the machine the test runs on', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'svc-vitals-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  const ignore = (): void => {}
  const log = { debug: ignore, info: ignore, warn: ignore, error: ignore, fatal: ignore }
  const { memory, disk, network } = await createMachine({ home, clock: systemClock, log }).vitals()
  t.ok(memory !== null && memory.ramTotal.inBytes >= memory.ramAvailable.inBytes)
  t.ok(disk !== null && disk.total.inBytes > 0)
  t.ok(Array.isArray(network?.interfaces))
})
