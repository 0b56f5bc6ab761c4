import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { readdir, readFile, statfs } from 'node:fs/promises'
import os from 'node:os'
import { promisify } from 'node:util'
import { noInspector, type Clock } from '../../../kernel/index.js'
import { read } from '../process/proc.js'

export type MachineIo = ReturnType<typeof thisMachine>

const TIMEOUT_MS = 15_000
/** Kernel files that are cheap to read; memory.stat of a large control group is not. */
const AT_HAND = /^\/(proc|sys\/fs\/cgroup)\/(?!.*memory\.stat$)/
/** Folders with system tools, so that programs from the user's PATH are not run. */
const TOOLS = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin', LANG: 'C'
}

const readNow = (path: string): string => read(path) ?? ''

/** CPU times of all processors; os.cpus() would also read each clock rate, which wakes the processors. */
function processorTimes (): os.CpuInfo {
  const [, user = 0, nice = 0, sys = 0, idle = 0, , irq = 0] =
    readNow('/proc/stat').split('\n', 1)[0]!.split(/\s+/).map(Number)
  return { model: '', speed: 0, times: { user, nice, sys, idle, irq } }
}

/**
 * Access to the files and programs that describe the machine; tests replace it. Files are read off the event
 * loop, except AT_HAND files, which cost less than a thread. Programs run asynchronously.
 */
export function thisMachine (clock: Clock) {
  return {
    platform: process.platform as string,
    /** Text of a file; '' if the file cannot be read. */
    read: async (path: string) =>
      AT_HAND.test(path) ? readNow(path) : await readFile(path, 'utf8').catch(() => ''),
    /** Names in a folder; empty if the folder cannot be read. */
    list: (folder: string): Promise<string[]> => readdir(folder).catch(() => []),
    ask: systemInformation(clock),
    nvidiaSmi: async (args: readonly string[]) => (await promisify(execFile)('nvidia-smi', [...args], {
      timeout: TIMEOUT_MS, killSignal: 'SIGKILL', env: TOOLS
    })).stdout,
    async space (folder: string) {
      const { blocks, bavail, bsize } = await statfs(folder)
      return { total: blocks * bsize, available: bavail * bsize }
    },
    cpus: () => process.platform === 'linux' ? [processorTimes()] : os.cpus(),
    addresses: () => os.networkInterfaces()
  }
}

/** Child process: answers `{ call, args }` with `{ value }` or `{ error }`; exits when its channel closes. */
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
 * Calls functions of systeminformation, for systems other than Linux, one at a time. The package runs system
 * tools synchronously, and a faulty driver can hang them, so it runs in a child process. The first call
 * starts the child process; a call that takes more than 15 s kills it.
 */
export function systemInformation (
  clock: Clock, module = import.meta.resolve('systeminformation')
): (call: string, ...args: unknown[]) => Promise<unknown> {
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
    const exited = (): void => { fail('ended without an answer') }
    const take = (message: unknown): void => { resolve(message as Answer) }
    child.once('message', take).once('exit', exited).once('error', exited)
    ends.push(
      clock.after(TIMEOUT_MS, () => { fail(`gave no answer in ${TIMEOUT_MS / 1000} s`) }),
      () => { child.off('message', take).off('exit', exited).off('error', exited) })
    child.send(question)
  })
  return await answer.finally(() => { for (const end of ends) end() })
}
