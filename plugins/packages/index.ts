import { definePlugin } from '../../kernel/index.js'

/** Declares only verbs, which work on the files of a home. */
export default definePlugin({
  name: 'packages',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Shows, creates, installs and removes plugins, on the command line.',
  verbs: {
    'plugin new': {
      heading: 'Set it up',
      summary: 'create a working plugin with a passing test',
      args: '<name>',
      options: [['--dir <dir>', 'folder to write to (else ./NAME)']],
      examples: ['svc plugin new demo', 'svc plugin new demo --dir ~/plugins/demo'],
      load: () => import('./cli/new.js')
    },
    'plugin show': {
      heading: 'Set it up', local: true,
      summary: 'show everything a plugin declares',
      args: '<name>',
      options: [['--config <file>', 'svc.yaml to read']],
      load: () => import('./cli/show.js')
    },
    'docs codes': {
      heading: 'Set it up', local: true,
      summary: 'list every error reason, conflict code, event and authority',
      options: [['--config <file>', 'svc.yaml whose plugins are included']],
      load: () => import('./cli/docs-codes.js')
    },
    'plugin install': {
      heading: 'Set it up', local: true,
      summary: 'install a plugin from npm, a folder or a .tgz, and start it if a node is running',
      args: '<source>',
      options: [['--yes', 'do not ask']],
      examples: ['svc plugin install ./demo', 'svc plugin install demo-1.0.0.tgz --yes'],
      load: async () => ({ default: (await import('./cli/install.js')).install })
    },
    'plugin rm': {
      heading: 'Set it up', local: true,
      summary: 'stop an installed plugin and remove its files',
      args: '<name>',
      options: [['--yes', 'do not ask']],
      load: async () => ({ default: (await import('./cli/install.js')).remove })
    }
  }
}, () => ({}))
