/** Opens the web page of real nodes in a real Chromium. */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'
import type { Test } from 'tap'
import type { TestNode } from '../node/kit.js'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']

function findChromium (): string | undefined {
  const named = process.env['SVC_TEST_CHROMIUM']
  if (named !== undefined) return named
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch { return false }
  })
}

const executablePath = findChromium()
/** Skip reason for the page tests; false if they can run. */
export const skip = executablePath === undefined &&
  'needs Chromium (Debian: apt install chromium), or its path in SVC_TEST_CHROMIUM'

/** Starts a browser that closes at the end of the test; `more` are additional arguments. */
export async function openBrowser (t: Test, more: readonly string[] = []): Promise<Browser> {
  const args = [
    // Chromium refuses to run as root inside its sandbox; containers have little shared memory.
    ...process.getuid?.() === 0 ? ['--no-sandbox'] : [], '--disable-dev-shm-usage',
    '--autoplay-policy=no-user-gesture-required', ...more
  ]
  const browser = await chromium.launch({ ...executablePath === undefined ? {} : { executablePath }, args })
  t.teardown(async () => { await browser.close() })
  return browser
}

export interface View {
  page: Page
  /** The page's exceptions, refused scripts and console errors; the list must stay empty. */
  problems: string[]
  /** Opens a page part such as `models`. */
  go (part: string): Promise<void>
}

export interface ViewOptions {
  /** Token to type into the page's sign-in form. */
  token?: string
  width?: number
  height?: number
  colours?: 'light' | 'dark'
  part?: string
  /** Console errors to ignore, such as those about a killed node or a refused request. */
  expected?: RegExp
  /** Text to wait for on the open page; the cluster's state by default. */
  shows?: string
}

/** Console errors by which the browser reports a refused or failed request. */
const OF_REQUESTS = /^Failed to load resource|WebSocket connection to/

/** Opens the page of a node and waits until it shows the cluster. */
export async function openPage (
  t: Test, browser: Browser, at: Pick<TestNode, 'url'>, options: ViewOptions = {}
): Promise<View> {
  const { width = 1280, height = 900, colours = 'light', part = 'cluster', expected } = options
  const { shows = '.pulse .badge' } = options
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: colours })
  t.teardown(async () => { await context.close() })
  const page = await context.newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => { problems.push(`exception: ${error.message}`) })
  page.on('console', (message) => {
    const text = message.text()
    if (message.type() !== 'error' || OF_REQUESTS.test(text) || expected?.test(text) === true) return
    problems.push(`console: ${text}`)
  })
  await page.goto(`${at.url}/#/${part}`)
  await page.locator(shows).first().waitFor()
  const view: View = {
    page, problems,
    go: async (to) => { await page.goto(`${new URL(page.url()).origin}/#/${to}`) }
  }
  if (options.token !== undefined) await enterToken(view, options.token)
  return view
}

export async function enterToken ({ page }: View, token: string): Promise<void> {
  await page.getByRole('button', { name: 'Sign in' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel(/^Token of/).fill(token)
  await dialog.getByRole('button', { name: 'Use it' }).click()
  await page.getByRole('button', { name: 'Token in use' }).waitFor()
}
