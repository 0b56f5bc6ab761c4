/** The rules of tidy.test.ts. */
export type Rule =
  'line length' | 'file length' | 'function length' | 'console' | 'process.env' | 'time and chance' |
  'types' | 'silenced compiler' | 'left over' | 'imports of plugins' | 'imports of the kernel' |
  'imports of the page' |
  'plugins named in the kernel' | 'dead files' | 'plugin folders' | 'words without a test' |
  'one copy of yjs' | 'markdown titles' | 'machine paths'

const runner = 'a runner process has the system\'s clock only; tests start real ones'

/** Files, or folders with a "/" at the end, that may break a rule, each with the reason. */
export const allowed: Partial<Record<Rule, Readonly<Record<string, string>>>> = {
  'process.env': {
    'plugins/staging/index.ts': 'the entry: hands it on as an argument',
    'plugins/chat/llama/program.ts': 'what the runner got, less one variable, for its child',
    'plugins/event-log/index.ts': 'the entry: hands it on as an argument',
    'kernel/cli/main.ts': 'the entry: hands it on as an argument',
    'kernel/cli/verbs/up.ts': 'takes out what the launcher told the node, so that no child sees it',
    'kernel/observe/log.ts': 'NO_COLOR',
    'plugins/runners/machine/runtimes.ts': 'the default of an argument',
    'plugins/runners/process/limits.ts': 'the default of an argument',
    'plugins/runners/process/spawn.ts': 'PATH and the allow-list for a runner\'s environment'
  },
  'time and chance': {
    'kernel/api/clock.ts': 'the clock itself',
    'kernel/state/changes.ts': 'the pulse of a followed /state, which goes on while a test\'s clock stands',
    'kernel/plugins/kernel.ts': 'waits for open work at a stop, which goes on while a test\'s clock stands',
    'kernel/http/system-routes.ts': 'the pause between two pushes of /state',
    'kernel/cli/verbs/up.ts': 'a program on its own; its last resort against a stop that hangs',
    'kernel/cli/waiting.ts': 'the command line waits in real time',
    'plugins/staging/index.ts': 'the entry: chance goes on as an argument',
    'plugins/relay/index.ts': 'the entry: chance goes on as an argument',
    'plugins/access/cli/create.ts': 'the command line: when a token is to end',
    'plugins/devices/cli/pair.ts': 'the command line: when a grant is to end',
    'plugins/access/cli/ls.ts': 'the command line: which tokens have ended',
    'plugins/runners/process/activity.ts': runner,
    'plugins/runners/process/host.ts': runner,
    'plugins/runners/process/watchdog.ts': runner,
    'plugins/runners/process/supervisor.ts': 'the default of an argument'
  },
  'imports of the kernel': {
    'kernel/cli/main.ts': 'the one place where the list of bundled plugins is imported, when it runs'
  },
  'plugins named in the kernel': {
    'kernel/api/plugin.ts': '"relay" is also a way in which a request comes',
    'kernel/http/access.ts': '"relay" is also a way in which a request comes',
    'kernel/http/refused.ts': '"relay" is also a way in which a request comes',
    'kernel/http/passed-on.ts': '"relay" is also a way in which a request comes',
    'kernel/boot/home.ts': '"logs" is also a folder of the home',
    'kernel/signing/device.ts': '"devices" is also a folder of a home',
    'kernel/config/kernel-keys.ts': '"access" is also a key of svc.yaml',
    'kernel/config/resolve.ts': '"access" is also a key of svc.yaml'
  },
  'machine paths': {
    'kernel/test/': 'made-up paths as data',
    'plugins/runners/test/process-family.test.ts': 'made-up paths as data'
  }
}
