// Scrolls a notebook to the heading that its address names: JupyterLab itself drops the fragment
// before the notebook is there. Written by hand in the form of a prebuilt extension.
const fragment = decodeURIComponent(window.location.hash);
const name = decodeURIComponent(window.location.pathname.split("/").pop());
const SETTLED = 1500; // ms until the cells above have been drawn and the heading keeps its place

async function scroll(panel) {
  await panel.context.ready;
  for (const delay of [0, SETTLED, SETTLED]) {
    await new Promise((resolve) => setTimeout(resolve, delay));
    await panel.content.setFragment(fragment);
  }
}

function activate(app) {
  if (!fragment) return;
  const find = () => {
    const panel = app.shell.currentWidget;
    if (!panel?.content?.setFragment || !panel.context.path.endsWith(name)) return;
    app.shell.currentChanged.disconnect(find);
    scroll(panel);
  };
  app.shell.currentChanged.connect(find);
  app.restored.then(find);
}

const plugin = { id: "lab-fragment:plugin", autoStart: true, activate };
window._JUPYTERLAB = window._JUPYTERLAB || {};
window._JUPYTERLAB["lab-fragment"] = {
  init: () => {},
  get: async () => () => ({ __esModule: true, default: plugin }),
};
