/** The names of the rules in tidy.test.ts. */
export type Rule =
  'line length' | 'file length' | 'function length' | 'console' | 'process.env' | 'time and chance' |
  'types' | 'silenced compiler' | 'left over' | 'imports of plugins' | 'imports of the kernel' |
  'imports of the page' |
  'plugins named in the kernel' | 'dead files' | 'plugin folders' | 'words without a test' |
  'one copy of yjs' | 'markdown titles' | 'machine paths' | 'outgoing connections'

const runner = 'a runner process has the system\'s clock only; tests start real ones'

/** Exceptions: files, or folders with a "/" at the end, each with the reason. */
export const allowed: Partial<Record<Rule, Readonly<Record<string, string>>>> = {
  'process.env': {
    'plugins/staging/index.ts': 'the entry: hands it on as an argument',
    'plugins/openai-programs/engine/index.ts': 'PATH of the program, after the folder of its environment',
    'plugins/openai-programs/index.ts': 'PATH, in which programs are found',
    'plugins/runners/openai/program.ts': 'what the runner got, less one variable, for its child',
    'plugins/upstreams/index.ts': 'the entry: hands it on as an argument',
    'plugins/event-log/index.ts': 'the entry: hands it on as an argument',
    'kernel/cli/main.ts': 'the entry: hands it on as an argument',
    'kernel/cli/verbs/up.ts': 'takes out what the launcher told the node, so that no child sees it',
    'kernel/observe/log.ts': 'NO_COLOR',
    'plugins/runners/machine/runtimes.ts': 'the default of an argument',
    'plugins/runners/process/limits.ts': 'the default of an argument',
    'plugins/runners/process/sandbox.ts': 'PATH, in which the programs are that hold a runner',
    'plugins/runners/process/spawn.ts': 'the allow-list for a runner\'s environment'
  },
  'outgoing connections': {
    'kernel/net/outgoing.ts': 'the guard itself',
    'plugins/cluster/identity/tls.ts': 'to members, whose keys are checked',
    'plugins/cluster/identity/join.ts': 'over a connection of identity/tls.ts',
    'plugins/cluster/links/': 'to members, over connections of identity/tls.ts; mDNS',
    'kernel/net/multicast.ts': 'asks on the local network whether multicast works',
    'kernel/net/responder.ts': 'announces on the local network, and asks there who else does',
    'kernel/boot/launcher.ts': 'listens, and resolves the address at which it does',
    'kernel/cli/client.ts': 'the command line: a person at this machine names the node',
    'kernel/cli/trust.ts': 'the same by TLS: the key is checked before a byte is sent',
    'kernel/http/tls/in-clear.ts': 'takes a connection apart that came in',
    'plugins/runners/openai/client.ts': 'a runner asks its own program; others give an agent of the guard',
    'plugins/upstreams/server.ts': 'through the agent of the guard',
    'plugins/llama-cpp/server/donor.ts': 'a runner looks whether the program that it started listens',
    'plugins/runners/donors/tunnel.ts': 'to the program of a runner of this node',
    'plugins/runners/process/node-link.ts': 'the pipe to a runner',
    'plugins/relay/device/': 'requests within a channel; the channel itself is dialled through the guard',
    'plugins/llama-cpp/builds/release.ts': 'hands the guard\'s dispatcher to fetch, which follows redirects'
  },
  'time and chance': {
    'kernel/api/clock.ts': 'the clock itself',
    'kernel/plugins/kernel.ts': 'open work at a stop and pushes of /state: a test\'s clock may stand',
    'kernel/cli/verbs/up.ts': 'a program on its own; its last resort against a stop that hangs',
    'kernel/cli/waiting.ts': 'the command line waits in real time',
    'kernel/testing/start-plugin.ts': 'keeps a test\'s process alive while the kernel stops',
    'plugins/staging/index.ts': 'the entry: chance goes on as an argument',
    'plugins/relay/index.ts': 'the entry: chance goes on as an argument',
    'plugins/upstreams/index.ts': 'the entry: chance goes on as an argument',
    'plugins/access/cli/create.ts': 'the command line: when a token is to end',
    'plugins/devices/cli/pair.ts': 'the command line: when a grant is to end',
    'plugins/access/cli/ls.ts': 'the command line: which tokens have ended',
    'plugins/llama-cpp/embedded/binding.ts': 'llama.cpp\'s log arrives later, and nothing says when',
    'plugins/llama-cpp/embedded/index.ts': runner,
    'plugins/capabilities-stt/engine/index.ts': runner,
    'plugins/runners/process/activity.ts': runner,
    'plugins/runners/process/host.ts': runner,
    'plugins/runners/process/watchdog.ts': runner,
    'plugins/runners/process/supervisor.ts': 'the default of an argument'
  },
  'imports of plugins': {
    'plugins/cluster/': 'documents in Yjs; requests between members are served on links, not by the API'
  },
  'imports of the kernel': {
    'kernel/cli/main.ts': 'the one place where the list of bundled plugins is imported, when it runs',
    'kernel/testing/start-plugin.ts': 'the test kit: plugins of others are tested with their capabilities'
  },
  'plugins named in the kernel': {
    'kernel/api/cluster.ts': '"cluster" is also a key of svc.yaml',
    'kernel/plugins/graph.ts': 'whoever declares capabilities requires the plugin that serves them',
    'kernel/plugins/capabilities.ts': '"capabilities" is also a key of what nodes say of themselves',
    'kernel/state/source.ts': '"capabilities" is also a key of what nodes say of themselves',
    'kernel/cli/verbs/completion.ts': '"capabilities" is also a kind of names',
    'kernel/api/off-plugin.ts': '"capabilities" is also a part of a manifest',
    'kernel/api/plugin.ts': '"relay" is also a way in which a request comes',
    'kernel/http/access.ts': '"relay" is also a way in which a request comes',
    'kernel/http/mount.ts': '"relay" is also a way in which a request comes',
    'kernel/http/forwarded.ts': '"relay" is also a way in which a request comes',
    'kernel/boot/home.ts': '"logs" is also a folder of the home',
    'kernel/config/kernel-settings.ts': '"access" is also a key of svc.yaml',
    'kernel/config/resolve.ts': '"access" is also a key of svc.yaml'
  },
  'machine paths': {
    'kernel/test/': 'made-up paths as data',
    'plugins/capabilities/test/': 'made-up paths as data',
    'plugins/runners/test/process-family.test.ts': 'made-up paths as data'
  }
}
