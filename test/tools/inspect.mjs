// Preloaded by a test: SIGUSR2 opens the inspector at TEST_INSPECT_PORT, since svc opens none at SIGUSR1.
import inspector from 'node:inspector'

process.on('SIGUSR2', () => {
  if (inspector.url() === undefined) inspector.open(Number(process.env.TEST_INSPECT_PORT), '127.0.0.1')
})
