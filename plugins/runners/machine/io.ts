import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readdir, readFile, statfs } from 'node:fs/promises'
import os from 'node:os'
import { promisify } from 'node:util'
import type { ChildProcess } from 'node:child_process'
import { noInspector } from '../../../kernel/index.js'
import type { Clock } from '../../../kernel/index.js'

/** What is read of a machine. Tests give their own. */
export interface MachineIo {
  platform: string
  /** Text of a file, '' when it cannot be read. */
  read (path: string): Promise<string>
  /** Names in a folder; empty when it cannot be read. */
  list (folder: string): Promise<string[]>
  /** Calls a function of the package systeminformation, for what has no file: everything but Linux. */
  ask (call: string, ...args: unknown[]): Promise<unknown>
  nvidiaSmi (args: readonly string[]): Promise<string>
  /** Bytes of the volume a folder is on. */
  space (folder: string): Promise<{ total: number, available: number }>
  cpus (): os.CpuInfo[]
  addresses (): ReturnType<typeof os.networkInterfaces>
}

const TIMEOUT_MS = 15_000
/** Age up to which the list of addresses is reused, ms: the system is asked for it by socket. */
const ADDRESSES_MS = 10_000
/** Files of the kernel that it has at hand; the statistics of a large control group take it a while. */
const AT_HAND = /^\/(proc|sys\/fs\/cgroup)\/(?!.*memory\.stat$)/
/** Where a system keeps its tools; what the user's PATH leads to is not run. */
const TOOLS = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin', LANG: 'C'
}

const readNow = (path: string): string => {
  try { return readFileSync(path, 'utf8') } catch { return '' }
}

/** Times of all processors together: os.cpus() also asks each for its clock rate, which wakes it. */
function processorTimes (): os.CpuInfo {
  const [, user = 0, nice = 0, sys = 0, idle = 0, , irq = 0] =
    readNow('/proc/stat').split('\n', 1)[0]!.split(/\s+/).map(Number)
  return { model: '', speed: 0, times: { user, nice, sys, idle, irq } }
}

/**
 * The machine this process runs on. Files are read off the loop's thread, but those AT_HAND: a thread costs
 * more than they do. Programs are never waited for.
 */
export function thisMachine (clock: Clock): MachineIo {
  let addresses: ReturnType<MachineIo['addresses']> = {}
  let addressesDue = -Infinity
  return {
    platform: process.platform,
    read: async (path) => AT_HAND.test(path) ? readNow(path) : await readFile(path, 'utf8').catch(() => ''),
    list: (folder) => readdir(folder).catch(() => []),
    ask: systemInformation(clock),
    nvidiaSmi: async (args) => (await promisify(execFile)('nvidia-smi', [...args], {
      timeout: TIMEOUT_MS, killSignal: 'SIGKILL', env: TOOLS
    })).stdout,
    async space (folder) {
      const { blocks, bavail, bsize } = await statfs(folder)
      return { total: blocks * bsize, available: bavail * bsize }
    },
    cpus: () => process.platform === 'linux' ? [processorTimes()] : os.cpus(),
    addresses: () => {
      if (clock.mono() >= addressesDue) {
        addresses = os.networkInterfaces()
        addressesDue = clock.mono() + ADDRESSES_MS
      }
      return addresses
    }
  }
}

/** Answers `{ call, args }` with `{ value }` or `{ error }`; ends with the channel to its parent. */
const CHILD = `
const si = (await import(process.argv[1])).default
process.on('message', async ({ call, args }) => {
  try {
    process.send({ value: await si[call](...args) })
  } catch (error) {
    process.send({ error: String(error) })
  }
})`

interface Answer { value?: unknown, error?: string }

/**
 * Asks functions of the package systeminformation, one after the other. It runs tools of the system
 * synchronously, and a sick driver can hang them. So it is never loaded into the node: it runs in a process
 * of its own, which the first question starts and which is killed when an answer takes over 15 s.
 */
export function systemInformation (
  clock: Clock, module = import.meta.resolve('systeminformation')
): MachineIo['ask'] {
  let child: ChildProcess | undefined
  let last: Promise<unknown> = Promise.resolve()
  const ask = async (call: string, args: unknown[]): Promise<unknown> => {
    child ??= start(module)
    const { value, error } = await exchange(child, { call, args }, clock).catch((error: unknown) => {
      child?.kill('SIGKILL')
      child = undefined
      throw error
    })
    if (error !== undefined) throw new Error(error)
    return value
  }
  return (call, ...args) => {
    const answer = last.then(() => ask(call, args))
    last = answer.catch(() => {})
    return answer
  }
}

function start (module: string): ChildProcess {
  const child = spawn(process.execPath, [...noInspector(), '--input-type=module', '--eval', CHILD, module], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env: TOOLS
  })
  child.on('error', () => {})
  child.unref()
  child.channel?.unref()
  return child
}

async function exchange (child: ChildProcess, question: object, clock: Clock): Promise<Answer> {
  const ends: (() => void)[] = []
  const answer = new Promise<Answer>((resolve, reject) => {
    const fail = (why: string): void => { reject(new Error(`systeminformation ${why}`)) }
    const gone = (): void => { fail('ended without an answer') }
    const take = (message: unknown): void => { resolve(message as Answer) }
    child.once('message', take).once('exit', gone).once('error', gone)
    ends.push(
      clock.after(TIMEOUT_MS, () => { fail(`gave no answer in ${TIMEOUT_MS / 1000} s`) }),
      () => { child.off('message', take).off('exit', gone).off('error', gone) })
    child.send(question)
  })
  return await answer.finally(() => { for (const end of ends) end() })
}
